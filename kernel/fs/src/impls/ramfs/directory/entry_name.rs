//! The name of an entry.

use alloc::boxed::Box;
use core::ops::Deref;

use hermit_base::try_alloc::try_to_vec;
use hermit_interface::Errno;

/// Maximum length of a name that is stored in its entry.
const MAX_SHORT: usize = 22;

/// The name of an entry. A short one needs no memory of its own.
#[derive(Debug)]
pub(in crate::impls::ramfs) enum EntryName {
    Short { length: u8, bytes: [u8; MAX_SHORT] },
    Long(Box<[u8]>),
}

impl EntryName {
    /// A copy of a name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(in crate::impls::ramfs) fn new(name: &[u8]) -> Result<Self, Errno> {
        let mut bytes = [0; MAX_SHORT];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(part), Ok(length)) => {
                part.copy_from_slice(name);
                Ok(Self::Short { length, bytes })
            }
            _ => Ok(Self::Long(try_to_vec(name)?.into_boxed_slice())),
        }
    }
}

impl Deref for EntryName {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(name) => name,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{EntryName, MAX_SHORT};
    use alloc::vec;

    #[test]
    fn names_of_each_length_are_copied() {
        for length in 0..=255 {
            let name = vec![b'x'; length];
            let copy = EntryName::new(&name).unwrap();
            assert_eq!(*copy, *name);
            assert_eq!(matches!(copy, EntryName::Short { .. }), length <= MAX_SHORT);
        }
    }
}
