//! The image that `cargo xtask image` fused with the loader.

use core::ptr;

use hermit_interface::address::AddressRange;

/// Found in the loader's file by its magic number and filled in by `cargo xtask image`.
#[repr(C, align(16))]
struct Payload {
    magic: [u8; 8],
    address: u64,
    size: u64,
}

// In a section of its own that is written, so that the compiler cannot know the values.
#[used]
#[unsafe(link_section = ".data.payload")]
static PAYLOAD: Payload = Payload { magic: *b"HRMTPLD1", address: 0, size: 0 };

/// Where the fused image lies, if there is one.
pub(crate) fn embedded() -> Option<AddressRange> {
    // SAFETY: a static of this type; volatile because its value is patched after compilation.
    let Payload { magic: _, address, size } = unsafe { ptr::read_volatile(&raw const PAYLOAD) };
    (size != 0).then_some(AddressRange { start: address, end: address.saturating_add(size) })
}
