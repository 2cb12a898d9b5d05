//! What crosses the boundary between onionlab and a library with a policy: C's calls, plain numbers and pointers, one table.
//!
//! A library exports one static, the [`Table`], under the name [`SYMBOL`]. It begins with a header whose layout never changes; onionlab reads that first
//! and nothing else of a library whose header is not the one below. [`crate::export!`] fills the table in for a policy in Rust; another language can
//! do so by hand, as long as it keeps to what the fields say.
//!
//! For every function of the table: it is called from one thread at a time for one instance; `now` never decreases for one instance; it must return
//! to its caller, so that nothing may unwind out of it.

use std::ffi::c_void;

/// The version of everything in this module. It changes with any change of meaning or layout below the header.
pub const VERSION: u32 = 1;

/// What a table begins with.
pub const MAGIC: [u8; 16] = *b"onionlab.policy\0";

/// The name under which a library exports its table.
pub const SYMBOL: &str = "onionlab_circuitmux_policy";

/// What a call returns that went well.
pub const DONE: u32 = 0;
/// What a call returns that went wrong: [`Table::message`] says why, and the instance is never used again, not even to destroy it.
pub const FAILED: u32 = 1;
/// What `pick` returns for no circuit; every circuit's number is less.
pub const NO_CIRCUIT: u64 = 1 << 32;
/// What `pick` returns if it went wrong.
pub const PICK_FAILED: u64 = NO_CIRCUIT + 1;
/// What `compare` returns if it went wrong; otherwise a negative number, zero, or a positive one.
pub const COMPARE_FAILED: i32 = i32::MIN;

/// A policy's state for one mux; only the library knows what is in it.
pub type Instance = *mut c_void;

/// What a table begins with, in every version.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 16],
    /// [`VERSION`] of the library.
    pub version: u32,
    /// Bytes of its table.
    pub size: u32,
}

/// A parameter from the experiment file. Both texts are UTF-8 and live as long as the call that they are handed to.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: *const u8,
    /// Bytes of the name.
    pub name_length: usize,
    /// Its value: a text as it is, a number in decimal, `true` or `false`.
    pub value: *const u8,
    /// Bytes of the value.
    pub value_length: usize,
}

/// What a library exports.
#[repr(C)]
pub struct Table {
    /// Who this is.
    pub header: Header,
    /// The policy's name in UTF-8, for as long as the library is loaded.
    pub name: *const u8,
    /// Bytes of the name.
    pub name_length: usize,
    /// Makes the policy of one mux from so many parameters; null if that fails.
    pub create: unsafe extern "C" fn(parameters: *const Parameter, count: usize) -> Instance,
    /// The mux is gone, and its policy with it.
    pub destroy: unsafe extern "C" fn(policy: Instance),
    /// A circuit joins with so many cells queued.
    pub attach: unsafe extern "C" fn(policy: Instance, circuit: u32, now: u64, cells: u32) -> u32,
    /// An inactive circuit leaves; its number may be given to another.
    pub detach: unsafe extern "C" fn(policy: Instance, circuit: u32) -> u32,
    /// A circuit has cells and had none. `now`, here and below: nanoseconds of simulated time.
    pub notify_active: unsafe extern "C" fn(policy: Instance, circuit: u32, now: u64) -> u32,
    /// A circuit has no cells any more.
    pub notify_inactive: unsafe extern "C" fn(policy: Instance, circuit: u32, now: u64) -> u32,
    /// A circuit's queue has so many cells now.
    pub notify_set_cells: unsafe extern "C" fn(policy: Instance, circuit: u32, cells: u32, now: u64) -> u32,
    /// So many cells of the picked circuit were sent.
    pub notify_sent: unsafe extern "C" fn(policy: Instance, circuit: u32, cells: u32, now: u64) -> u32,
    /// The circuit to send next, or [`NO_CIRCUIT`].
    pub pick: unsafe extern "C" fn(policy: Instance, now: u64) -> u64,
    /// Which of two policies of this library should send first: negative, the first one.
    pub compare: unsafe extern "C" fn(one: Instance, other: Instance) -> i32,
    /// Copies why the last failed call of this thread failed, in UTF-8, at most `capacity` bytes of it; returns how many bytes were copied.
    pub message: unsafe extern "C" fn(buffer: *mut u8, capacity: usize) -> usize,
}

impl Table {
    /// The header of a table that this version of the module describes.
    pub const HEADER: Header = Header { magic: MAGIC, version: VERSION, size: size_of::<Self>() as u32 };
}

// SAFETY: a table is never written to after the library is built; what it points to are functions and a static text.
#[expect(unsafe_code, reason = "a static must be `Sync`, and raw pointers are not by themselves")]
unsafe impl Sync for Table {}
