//! The C types that cross the boundary, by topic, with their layouts pinned at compile time.
//!
//! Two kernels of the same ABI version may differ in everything but this: a field that moved would be read wrongly
//! without a word, so each `#[repr(C)]` structure is followed by assertions of its size and offsets.

pub(crate) mod file;
pub(crate) mod net;
pub(crate) mod scalar;
pub(crate) mod time;

/// Asserts at compile time the size of a structure and the offset of each of its fields.
macro_rules! assert_layout {
    ($type:ty, size $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
use assert_layout;
