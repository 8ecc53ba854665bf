//! Fields of C's structures, which programs pass as bytes.

/// Returns the bytes of the field at an offset, or `None` if the structure ends before the end of the field.
#[must_use]
pub fn field<const N: usize>(structure: &[u8], offset: usize) -> Option<[u8; N]> {
    structure.get(offset..)?.first_chunk().copied()
}

/// Writes the bytes of the field at an offset, up to the end of the structure.
pub fn set_field(structure: &mut [u8], offset: usize, bytes: &[u8]) {
    for (to, from) in structure.iter_mut().skip(offset).zip(bytes) {
        *to = *from;
    }
}
