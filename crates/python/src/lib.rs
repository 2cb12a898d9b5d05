//! The module `onionlab._core`.
