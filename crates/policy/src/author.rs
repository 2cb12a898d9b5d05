//! The author's side of the boundary: from a policy in safe Rust to the table that onionlab loads.
#![expect(unsafe_code, reason = "C's calls hand over pointers; each use says why it is sound")]

use crate::abi::{self, COMPARE_FAILED, DONE, FAILED, Instance, NO_CIRCUIT, PICK_FAILED, Parameter, Table};
use crate::{CircuitmuxPolicy, Parameters, SimTime, Slot};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

/// A policy that a library exports.
pub trait OwnPolicy: CircuitmuxPolicy + Send + Sized + 'static {
    /// The policy of one mux, from what the experiment file says. It is called once for each mux of each relay and client, and once before a run
    /// begins to see that the parameters are good.
    ///
    /// # Errors
    /// What is wrong with the parameters, as one sentence for the user.
    fn new(parameters: &mut Parameters<'_>) -> Result<Self, String>;
}

/// Exports the policy of a library: `onionlab_policy::export!(MyPolicy);`, once in a crate of `crate-type = ["cdylib"]`.
///
/// The type implements [`OwnPolicy`]; its name is what messages call the policy.
#[macro_export]
macro_rules! export {
    ($policy:ident) => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a policy must be built with panic = \"unwind\": a panic then ends the run that has the policy, and not all of onionlab"
        );

        #[unsafe(no_mangle)]
        #[allow(missing_docs, non_upper_case_globals)]
        pub static onionlab_circuitmux_policy: $crate::abi::Table = $crate::author::table::<$policy>(stringify!($policy));
    };
}

/// The table of a policy with this name; for [`crate::export!`].
pub const fn table<P: OwnPolicy>(name: &'static str) -> Table {
    Table {
        header: Table::HEADER,
        name: name.as_ptr(),
        name_length: name.len(),
        create: create::<P>,
        destroy: destroy::<P>,
        attach: attach::<P>,
        detach: detach::<P>,
        notify_active: notify_active::<P>,
        notify_inactive: notify_inactive::<P>,
        notify_set_cells: notify_set_cells::<P>,
        notify_sent: notify_sent::<P>,
        pick: pick::<P>,
        compare: compare::<P>,
        message,
    }
}

thread_local! {
    /// Why the last call of this thread failed.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn say(what: String) {
    MESSAGE.set(what);
}

/// Keeps what a panic says for the simulator, which tells it in a sentence of its own. A library has a standard library of its own, and with it a hook
/// of its own: panics elsewhere in the process are not concerned.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
            let what = panic.payload_as_str().unwrap_or("a panic without a message");
            let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
            say(format!("{what}{}", place.unwrap_or_default()));
        }));
    });
}

/// Calls the policy; `failed` if that panics.
fn guarded<T>(failed: T, call: impl FnOnce() -> T) -> T {
    // Whatever state a panic leaves behind is never looked at again (`abi::FAILED`).
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(failed)
}

/// # Safety
/// `policy` is what `create::<P>` returned, was not destroyed, and nobody else uses it during the call.
unsafe fn of<'a, P>(policy: Instance) -> &'a mut P {
    // SAFETY: `create` made it from a `Box<P>`; that it lives and is not shared is the caller's part.
    unsafe { &mut *policy.cast::<P>() }
}

/// # Safety
/// `text` points to `length` bytes of UTF-8 that outlive the call.
unsafe fn text<'a>(text: *const u8, length: usize) -> &'a str {
    // SAFETY: as above; a text of no bytes has a pointer too.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(text, length)) }
}

// SAFETY, for all functions below: they are called through the table alone, by a host that keeps what `abi` says: instances come from `create`, are
// used by one thread at a time, and not after `destroy` or a failure.

unsafe extern "C" fn create<P: OwnPolicy>(parameters: *const Parameter, count: usize) -> Instance {
    keep_panics();
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the host hands over `count` parameters, whose texts are UTF-8.
        let given = unsafe { std::slice::from_raw_parts(parameters, count) }.iter();
        let given = given.map(|of| unsafe { (text(of.name, of.name_length), text(of.value, of.value_length)) });
        let mut parameters = Parameters::new(given);
        let made = P::new(&mut parameters).and_then(|policy| parameters.all_asked().map(|()| policy));
        match made {
            Ok(policy) => Box::into_raw(Box::new(policy)).cast(),
            Err(why) => {
                say(why);
                std::ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn destroy<P: OwnPolicy>(policy: Instance) {
    // SAFETY: `create` made it from a `Box<P>`, and it is not used any more.
    guarded((), || drop(unsafe { Box::from_raw(policy.cast::<P>()) }));
}

unsafe extern "C" fn attach<P: OwnPolicy>(policy: Instance, circuit: u32, now: u64, cells: u32) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.attach(Slot(circuit), SimTime::from_nanos(now), cells);
        DONE
    })
}

unsafe extern "C" fn detach<P: OwnPolicy>(policy: Instance, circuit: u32) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.detach(Slot(circuit));
        DONE
    })
}

unsafe extern "C" fn notify_active<P: OwnPolicy>(policy: Instance, circuit: u32, now: u64) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.notify_active(Slot(circuit), SimTime::from_nanos(now));
        DONE
    })
}

unsafe extern "C" fn notify_inactive<P: OwnPolicy>(policy: Instance, circuit: u32, now: u64) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.notify_inactive(Slot(circuit), SimTime::from_nanos(now));
        DONE
    })
}

unsafe extern "C" fn notify_set_cells<P: OwnPolicy>(policy: Instance, circuit: u32, cells: u32, now: u64) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.notify_set_cells(Slot(circuit), cells, SimTime::from_nanos(now));
        DONE
    })
}

unsafe extern "C" fn notify_sent<P: OwnPolicy>(policy: Instance, circuit: u32, cells: u32, now: u64) -> u32 {
    guarded(FAILED, || {
        // SAFETY: see above.
        unsafe { of::<P>(policy) }.notify_sent(Slot(circuit), cells, SimTime::from_nanos(now));
        DONE
    })
}

unsafe extern "C" fn pick<P: OwnPolicy>(policy: Instance, now: u64) -> u64 {
    guarded(PICK_FAILED, || {
        // SAFETY: see above.
        let picked = unsafe { of::<P>(policy) }.pick(SimTime::from_nanos(now));
        picked.map_or(NO_CIRCUIT, |Slot(circuit)| u64::from(circuit))
    })
}

unsafe extern "C" fn compare<P: OwnPolicy>(one: Instance, other: Instance) -> i32 {
    guarded(COMPARE_FAILED, || {
        // SAFETY: see above; the two may be one, and are only read.
        let (one, other) = unsafe { (&*one.cast::<P>(), &*other.cast::<P>()) };
        match one.compare(other) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    })
}

unsafe extern "C" fn message(buffer: *mut u8, capacity: usize) -> usize {
    MESSAGE.with_borrow(|message| {
        let length = message.floor_char_boundary(capacity);
        // SAFETY: the host's buffer has `capacity` bytes, and is its own.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), buffer, length) };
        length
    })
}

const _: () = assert!(size_of::<abi::Header>() == 24, "the header's layout is the same in every version");
