//! The ELF note that identifies a Hermit image and has its ABI version.

use zerocopy::{Immutable, IntoBytes};

/// Owner of the note (`n_name`), without the terminating NUL.
pub const OWNER: &str = "HERMIT";

/// Type of the note (`n_type`), whose descriptor is the ABI version as a little-endian `u32`.
pub const TYPE_ABI: u32 = 1;

/// Version of the ABI between kernel, loader and hypervisor: the layout of [`crate::boot_info`], the
/// relocations of an image, and the state at its entry. Incremented with every incompatible change.
pub const ABI_VERSION: u32 = 7;

/// The note in its layout in the image (ELF gABI, "Note Section").
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
    /// The note of images that are built with this version of the interface.
    pub const CURRENT: Self =
        Self { name_size: 7, descriptor_size: 4, kind: TYPE_ABI, name: *b"HERMIT\0\0", version: ABI_VERSION };
}

impl Default for AbiNote {
    fn default() -> Self {
        Self::CURRENT
    }
}
