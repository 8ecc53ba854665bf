//! The image that `cargo xtask image` has appended to the loader.

use core::ptr;

use hermit_interface::address::AddressRange;
use hermit_interface::boot_image;

/// Physical range of the image. `cargo xtask image` finds it in the loader's file by its magic number, and fills it in.
#[repr(C, align(16))]
struct Payload {
    magic: [u8; 8],
    address: u64,
    size: u64,
}

// In a writable section of its own, so that the value is not taken for a constant.
#[used]
#[unsafe(link_section = ".data.payload")]
static PAYLOAD: Payload = Payload { magic: boot_image::MAGIC, address: 0, size: 0 };

/// Physical range of the appended image, if there is one.
pub(crate) fn embedded() -> Option<AddressRange> {
    // SAFETY: the pointer is to an initialised static that no code writes. The read is volatile because `cargo xtask
    // image` has changed the value after compilation.
    let Payload { magic: _, address, size } = unsafe { ptr::read_volatile(&raw const PAYLOAD) };
    (size != 0).then_some(AddressRange { start: address, end: address.saturating_add(size) })
}
