//! Asking the processor to fetch memory that a coming event will need.

/// A hint that `item` will be read soon: its first `bytes` bytes are brought towards the first-level cache.
///
/// The simulator's data is larger than the caches, and an event that finds its socket and packet cold waits for memory several times over. The
/// queue knows the next events, so their data can be on its way while the present one is handled. Changes no result.
#[inline(always)]
pub fn prefetch<T>(item: &T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes.min(size_of::<T>())).step_by(64) {
        let address = std::ptr::from_ref(item).cast::<i8>().wrapping_add(offset);
        // SAFETY: a prefetch is a hint. It reads nothing into the program, writes nothing and cannot fault, whatever the address is (Intel SDM vol. 2,
        // PREFETCHh); this address lies inside a live object besides.
        #[expect(unsafe_code, reason = "the intrinsic is declared unsafe because it takes a pointer")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (item, bytes);
}
