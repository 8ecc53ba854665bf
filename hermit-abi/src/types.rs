//! The C types of the ABI, by topic.
//!
//! No linker or type checker notices a field that has moved, so the size and the offsets of each `#[repr(C)]`
//! structure are asserted at compile time.

pub(crate) mod file;
pub(crate) mod net;
pub(crate) mod scalar;
pub(crate) mod time;

/// Asserts at compile time the size of a structure and the offsets of the given fields.
macro_rules! assert_layout {
    ($type:ty, size $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
use assert_layout;
