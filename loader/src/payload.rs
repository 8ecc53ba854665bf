//! Files that `cargo xtask image` has appended to the loader: the image, and perhaps an initramfs.

use core::ptr;

use hermit_interface::address::AddressRange;
use hermit_interface::boot_image::{LoaderRecord, MAGIC};

// `cargo xtask image` finds this record in the loader's file by the magic number, and fills it in. The record
// is in a writable section of its own, so that the compiler does not treat its value as a constant.
#[used]
#[unsafe(link_section = ".data.payload")]
static PAYLOAD: LoaderRecord = LoaderRecord { magic: MAGIC, executable: [0; 2], initramfs: [0; 2] };

/// Physical ranges of the appended image and of the appended initramfs, if they are there.
pub(crate) fn embedded() -> [Option<AddressRange>; 2] {
    // SAFETY: the pointer is to an initialised static that no code writes. The read is volatile because
    // `cargo xtask image` has changed the value after compilation.
    let LoaderRecord { magic: _, executable, initramfs } = unsafe { ptr::read_volatile(&raw const PAYLOAD) };
    [executable, initramfs].map(|[address, size]| {
        (size != 0).then_some(AddressRange { start: address, end: address.saturating_add(size) })
    })
}
