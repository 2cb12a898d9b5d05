//! The allocator of the programs made here: on Linux jemalloc, which asks for huge pages; elsewhere, and without the feature `jemalloc`, the system's.
//!
//! A large world waits for address translation: its data lies on tens of thousands of small pages. Linux gives huge ones to those who
//! ask (`madvise`, the default of most distributions). glibc's allocator can be told to ask, but only by the program's environment, and
//! does not for what a thread other than the first one allocates in small pieces, nor for vectors that grew from small ones. In a
//! simulation started from Python, both together are more than half of all data. Measured in `docs/performance.md`.
//!
//! A program has it by naming this crate: `use onionlab_allocator as _;`. Those that run large worlds are built with the feature: the Python package and the benchmarks.

#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
