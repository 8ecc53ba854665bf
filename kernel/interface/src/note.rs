//! The ELF note that marks an image as ours and names the ABI it was built for.

use zerocopy::{Immutable, IntoBytes};

/// Owner name of our notes, without the terminating NUL.
pub const OWNER: &str = "HERMIT";

/// Type of the note that carries the ABI version as a little-endian `u32`.
pub const TYPE_ABI: u32 = 1;

/// What kernel, loader and hypervisor must have in common: the layout of [`crate::boot_info`] and the way an
/// image is entered. Raised with every incompatible change.
pub const ABI_VERSION: u32 = 4;

/// The note as it lies in the image (ELF gABI, "Note Section"): sizes, type, owner and version.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct AbiNote {
    name_size: u32,
    descriptor_size: u32,
    kind: u32,
    name: [u8; 8],
    version: u32,
}

impl AbiNote {
    /// The note of images built with this version of the interface.
    pub const CURRENT: Self =
        Self { name_size: 7, descriptor_size: 4, kind: TYPE_ABI, name: *b"HERMIT\0\0", version: ABI_VERSION };
}

impl Default for AbiNote {
    fn default() -> Self {
        Self::CURRENT
    }
}
