//! The simulator's side of the boundary: loading a library, and its policy as one among others.
#![expect(unsafe_code, reason = "code from a library is called through pointers; each use says why it is sound")]

use crate::abi::{self, COMPARE_FAILED, DONE, Header, Instance, NO_CIRCUIT, PICK_FAILED, Parameter, SYMBOL, Table};
use crate::{CircuitmuxPolicy, CustomPolicy, SimTime, Slot};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use onionlab_circuitmux::Trouble;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

/// A library that cannot be used: the rest of a sentence that begins with its name.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The copy that is to be loaded cannot be written.
    #[error("cannot be copied to {} to be loaded ({cause})", file.display())]
    Copy {
        /// Where to.
        file: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// The system's loader refuses it.
    #[error("cannot be loaded ({0})")]
    Load(String),
    /// It exports no policy.
    #[error("exports no policy: a library of Rust does so with `onionlab_policy::export!`")]
    NoPolicy,
    /// It was made for another version of the interface.
    #[error(
        "has version {found} of the policy interface where this onionlab has {}: build it again with this onionlab's onionlab-policy",
        abi::VERSION
    )]
    Version {
        /// Its version.
        found: u32,
    },
}

/// A library with a policy. It stays loaded until the process ends, since whatever it made may live so long.
#[derive(Clone, Copy)]
pub struct Library {
    table: &'static Table,
    name: &'static str,
}

/// The libraries of this process, by what is in them.
static LOADED: Mutex<BTreeMap<Vec<u8>, Library>> = Mutex::new(BTreeMap::new());

/// Numbers the copies that are loaded.
static COPIES: AtomicU64 = AtomicU64::new(0);

impl Library {
    /// Loads the library with this content, of which `digest` is a hash: exactly these bytes, even if the file that they came from is written anew
    /// meanwhile, and once in a process. Its initialisers run, as a program's do: whoever names a library in an experiment runs its code.
    ///
    /// # Errors
    /// It is no library for this machine, has no policy, or one for another version of onionlab.
    ///
    /// # Panics
    /// If another thread panicked while it loaded a library.
    pub fn load(content: &[u8], digest: &[u8]) -> Result<Self, LoadError> {
        let mut loaded = LOADED.lock().expect("loading does not panic");
        if let Some(library) = loaded.get(digest) {
            return Ok(*library);
        }
        let library = open(content)?;
        loaded.insert(digest.to_vec(), library);
        Ok(library)
    }

    /// What its author calls the policy.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its policy with these parameters; `place` says in messages where the library came from.
    pub fn policy(self, place: &str, parameters: Vec<(String, String)>) -> CustomPolicy {
        let place = place.to_owned();
        CustomPolicy::fallible(self.name, move |trouble| Loaded::create(self.table, &parameters, trouble, &place))
    }
}

/// A file that was not there: in a folder that others share, or that outlives a container, somebody of the same process number may have left one.
fn new_file() -> (PathBuf, io::Result<fs::File>) {
    const TRIES: usize = 100;
    let create = || {
        let name = format!("onionlab-policy-{}-{}.so", std::process::id(), COPIES.fetch_add(1, Atomic::Relaxed));
        let file = std::env::temp_dir().join(name);
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&file);
        (file, created)
    };
    let is_there = |created: &io::Result<fs::File>| matches!(created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
    let mut last = create();
    for _ in 1..TRIES {
        if !is_there(&last.1) {
            break;
        }
        last = create();
    }
    last
}

/// Writes the content to a file of its own and loads that. A file that is loaded must not change, and the loader takes a path that it has loaded before
/// for what it was then.
fn open(content: &[u8]) -> Result<Library, LoadError> {
    let (file, created) = new_file();
    let written = created.and_then(|mut copy| copy.write_all(content));
    let opened = written.map_err(|cause| LoadError::Copy { file: file.clone(), cause }).and_then(|()| {
        // SAFETY: loading runs the library's initialisers. That is what its owner, who names it in the experiment, asks for; those of a library of
        // Rust do nothing to others. All symbols are resolved now, so that none is missing later.
        unsafe { Handle::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| LoadError::Load(describe(&error)))
    });
    // Loaded is loaded: the file's name is not needed any more, whether that went well or not.
    let _ = fs::remove_file(&file);
    let handle = opened?;
    // SAFETY: the symbol is looked up by name and its type not relied upon: `table` looks at the header first.
    let symbol = unsafe { handle.get::<*const Header>(SYMBOL.as_bytes()) }.map_err(|_| LoadError::NoPolicy)?;
    let library = table(symbol.into_raw().cast());
    if library.is_ok() {
        // Its code and its table live for ever from here on.
        std::mem::forget(handle);
    }
    library
}

/// What the loader says, without the name of the copy.
fn describe(error: &libloading::Error) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let text = text.split_once(".so: ").map_or(text.as_str(), |(_, rest)| rest);
    text.to_owned()
}

/// The library behind an exported symbol, once its header says that it is one of ours.
fn table(symbol: *const Table) -> Result<Library, LoadError> {
    // SAFETY: the library exports something under the name that only tables of policies have. All versions of the table begin with this header of 24 bytes, which is
    // read without relying on an alignment. Nothing else is touched before it is known to be of this version and this size.
    let header = unsafe { symbol.cast::<Header>().read_unaligned() };
    if header.magic != abi::MAGIC {
        return Err(LoadError::NoPolicy);
    }
    if header != Table::HEADER {
        return Err(LoadError::Version { found: header.version });
    }
    if !symbol.is_aligned() {
        return Err(LoadError::NoPolicy);
    }
    // SAFETY: the symbol is aligned as a `Table` must be; magic, version and size are those of `Table` as it is here, which the author's side filled in with functions and a text that live as
    // long as the library; it is never unloaded once this succeeds.
    let table = unsafe { &*symbol };
    // SAFETY: as above.
    let name = unsafe { std::slice::from_raw_parts(table.name, table.name_length) };
    let name = std::str::from_utf8(name).map_err(|_| LoadError::NoPolicy)?;
    Ok(Library { table, name })
}

/// A policy of a library, for one mux.
struct Loaded {
    table: &'static Table,
    /// Not null. Used by whoever owns or borrows this, as `table` was promised.
    policy: Instance,
    /// A call went wrong: the policy is not called any more.
    failed: Cell<bool>,
    now: SimTime,
    trouble: Trouble,
    place: String,
}

// SAFETY: the author's side requires `Send` of the policy (`OwnPolicy`); the rest is `Send` by itself.
unsafe impl Send for Loaded {}

impl Loaded {
    fn create(table: &'static Table, parameters: &[(String, String)], trouble: &Trouble, place: &str) -> Result<Self, String> {
        let given: Vec<Parameter> = parameters
            .iter()
            .map(|(name, value)| Parameter {
                name: name.as_ptr(),
                name_length: name.len(),
                value: value.as_ptr(),
                value_length: value.len(),
            })
            .collect();
        // SAFETY: so many parameters, whose texts are UTF-8 and outlive the call.
        let policy = unsafe { (table.create)(given.as_ptr(), given.len()) };
        if policy.is_null() {
            return Err(why(table));
        }
        let (trouble, place) = (trouble.clone(), place.to_owned());
        Ok(Self { table, policy, failed: Cell::new(false), now: SimTime::ZERO, trouble, place })
    }

    #[cold]
    #[inline(never)]
    fn fails(&self, call: &str) {
        self.failed.set(true);
        self.trouble.report(|| {
            let (place, now, why) = (&self.place, self.now.as_secs_f64(), why(self.table));
            format!("of {place} failed in `{call}` at {now:.6} s of simulated time: {why}")
        });
    }

    /// Makes one call, unless one has failed before.
    #[inline]
    fn notify(&self, call: &str, made: impl FnOnce(&Table, Instance) -> u32) {
        if !self.failed.get() && made(self.table, self.policy) != DONE {
            self.fails(call);
        }
    }
}

/// Why the last call failed.
fn why(table: &Table) -> String {
    let mut buffer = vec![0; 400];
    // SAFETY: the buffer has as many bytes as it says.
    let length = unsafe { (table.message)(buffer.as_mut_ptr(), buffer.len()) };
    buffer.truncate(length);
    let text = String::from_utf8_lossy(&buffer);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

// SAFETY, for all calls through the table: the instance is one that this table's `create` made; `&mut self`, or for `compare` that nothing here is
// shared between threads, sees to it that one thread uses it at a time; `failed` that none follows a failure.
impl CircuitmuxPolicy for Loaded {
    fn attach(&mut self, Slot(circuit): Slot, now: SimTime, cells: u32) {
        self.now = now;
        self.notify("attach", |table, policy| unsafe { (table.attach)(policy, circuit, now.as_nanos(), cells) });
    }

    fn detach(&mut self, Slot(circuit): Slot) {
        self.notify("detach", |table, policy| unsafe { (table.detach)(policy, circuit) });
    }

    fn notify_active(&mut self, Slot(circuit): Slot, now: SimTime) {
        self.now = now;
        self.notify("notify_active", |table, policy| unsafe { (table.notify_active)(policy, circuit, now.as_nanos()) });
    }

    fn notify_inactive(&mut self, Slot(circuit): Slot, now: SimTime) {
        self.now = now;
        self.notify("notify_inactive", |table, policy| unsafe { (table.notify_inactive)(policy, circuit, now.as_nanos()) });
    }

    fn notify_set_cells(&mut self, Slot(circuit): Slot, cells: u32, now: SimTime) {
        self.now = now;
        self.notify("notify_set_cells", |table, policy| unsafe {
            (table.notify_set_cells)(policy, circuit, cells, now.as_nanos())
        });
    }

    fn notify_sent(&mut self, Slot(circuit): Slot, cells: u32, now: SimTime) {
        self.now = now;
        self.notify("notify_sent", |table, policy| unsafe { (table.notify_sent)(policy, circuit, cells, now.as_nanos()) });
    }

    fn pick(&mut self, now: SimTime) -> Option<Slot> {
        if self.failed.get() {
            return None;
        }
        self.now = now;
        match unsafe { (self.table.pick)(self.policy, now.as_nanos()) } {
            circuit if circuit < NO_CIRCUIT => Some(Slot(circuit as u32)),
            PICK_FAILED => {
                self.fails("pick");
                None
            }
            _ => None,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        if self.failed.get() || other.failed.get() || !std::ptr::eq(self.table, other.table) {
            return Ordering::Equal;
        }
        match unsafe { (self.table.compare)(self.policy, other.policy) } {
            COMPARE_FAILED => {
                self.fails("compare");
                other.failed.set(true);
                Ordering::Equal
            }
            order => order.cmp(&0),
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // What a failure left behind is not touched again.
        if !self.failed.get() {
            // SAFETY: it is not used any more.
            unsafe { (self.table.destroy)(self.policy) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_policy_of_this_version_is_not_looked_at() {
        let load = |header: Header| table((&raw const header).cast()).map(|_| ()).unwrap_err().to_string();
        let other = Header { magic: [7; 16], ..Table::HEADER };
        assert!(load(other).starts_with("exports no policy"));
        let newer = Header { version: 2, ..Table::HEADER };
        assert!(load(newer).starts_with("has version 2 of the policy interface where this onionlab has 1: build it again"));
        assert!(load(Header { size: 8, ..Table::HEADER }).starts_with("has version 1"), "the size counts too");
        assert!(Library::load(b"no library", b"digest").map(|_| ()).unwrap_err().to_string().starts_with("cannot be loaded ("));
    }
}
