//! The allocator of the programs made here: on Linux jemalloc, which asks for huge pages; elsewhere, and without the feature `jemalloc`, the system's.
//!
//! A large world waits for address translation: its data lies on tens of thousands of small pages. Linux gives huge ones to those who
//! ask (`madvise`, the default of most distributions). glibc's allocator can be told to ask, but only by the program's environment, and
//! does not for what a thread other than the first one allocates in small pieces, nor for vectors that grew from small ones. In a
//! simulation started from Python, both together are more than half of all data. Measured in `docs/performance.md`.
//!
//! What is free stays with the program until [`give_back`] is called: a huge page comes apart when a part of it is given back, and what is taken again comes in
//! small ones. With jemalloc's ten seconds half of a large world lay on small pages after some minutes, and given back after each of many runs, more and more of the later ones.
//!
//! A program has it by naming this crate: `use onionlab_allocator as _;`. Those that run large worlds are built with the feature: the Python package and the benchmarks.

#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Gives memory that is free back to the system: for when the program has made what took much.
pub fn give_back() {
    #[cfg(all(target_os = "linux", feature = "jemalloc"))]
    #[expect(unsafe_code, reason = "a call into a library of C")]
    // SAFETY: the name ends with a zero byte. Without places for an old and a new value `mallctl` reads and writes nothing else of the program's,
    // and purging touches only what nobody has allocated, under the arenas' own locks (jemalloc(3), `arena.<i>.purge`; 4096 stands for all, `MALLCTL_ARENAS_ALL`).
    unsafe {
        use std::ptr::null_mut;
        tikv_jemalloc_sys::mallctl(c"arena.4096.purge".as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}
