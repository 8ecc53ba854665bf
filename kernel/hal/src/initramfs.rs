//! The initramfs, a tar archive that the loader has left in memory.

use core::ptr::with_exposed_provenance;
use core::slice;

use hermit_interface::boot_info::BootInfo;
use hermit_interface::to_usize;

use crate::once::Once;

static ARCHIVE: Once<&'static [u8]> = Once::new();

/// Reads the address of the archive from the boot information.
pub(crate) fn init(info: &BootInfo) {
    if info.initramfs.size == 0 {
        return;
    }
    let start = with_exposed_provenance(to_usize(info.direct_map.start + info.initramfs.start));
    // SAFETY: by the loader's contract (`hermit_interface::boot_info`) the range is mapped in the direct map,
    // read-only, and is not part of free memory, so nothing writes to it. Any bits are valid bytes.
    let archive = unsafe { slice::from_raw_parts(start, to_usize(info.initramfs.size)) };
    ARCHIVE.call_once(|| archive);
}

/// The tar archive ([`hermit_interface::tar`]) with the initramfs, if there is one. It is not
/// checked.
#[must_use]
pub fn archive() -> Option<&'static [u8]> {
    ARCHIVE.get().copied()
}
