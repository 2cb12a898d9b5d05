//! XON and XOFF
