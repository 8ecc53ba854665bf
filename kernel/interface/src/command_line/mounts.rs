//! Mounts of virtio-fs devices, the option `mount=TAG:PATH[:ro]`, once for each; and the directory in which
//! the program starts, `workdir=PATH`.

use alloc::vec::Vec;

use hermit_base::try_alloc::{try_push, try_to_vec};

use super::{Encoder, WordIter};
use crate::Errno;

/// Maximum length of a tag in bytes (virtio 1.2, section 5.11.4).
const MAX_TAG: usize = 36;

/// Suffix of the path of a read-only mount.
const READ_ONLY: &[u8] = b":ro";

/// Optional suffix of the path of any other mount.
const WRITABLE: &[u8] = b":rw";

/// A virtio-fs device that the kernel mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOption {
    /// Tag of the device, 1 to 36 bytes.
    pub tag: Vec<u8>,
    /// Absolute path of a directory other than the root.
    pub path: Vec<u8>,
    /// True if it is mounted read-only.
    pub is_read_only: bool,
}

/// The mounts and the working directory of a command line. Parsed only by programs that use files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Mounts, in the order of the line.
    pub mounts: Vec<MountOption>,
    /// The program's first current directory, absolute, if it is not the root: the last one of the line.
    pub working_directory: Option<Vec<u8>>,
    /// Options with invalid values, as written.
    pub malformed: Vec<Vec<u8>>,
}

impl Encoder {
    /// Mounts the virtio-fs device with a tag, in which there is no colon, on a directory.
    pub fn mount(&mut self, tag: &str, path: &[u8], is_read_only: bool) {
        let mode = if is_read_only { READ_ONLY } else { WRITABLE };
        self.option(b"mount=", &[tag.as_bytes(), b":", path, mode].concat());
    }

    /// Starts the program in a directory.
    pub fn working_directory(&mut self, path: &[u8]) {
        self.option(b"workdir=", path);
    }
}

impl MountOptions {
    /// Parses the mounts and the working directory of a command line.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn parse(line: &[u8]) -> Result<Self, Errno> {
        let mut parsed = Self::default();
        let mut word = Vec::new();
        word.try_reserve_exact(line.len())?;
        let mut words = WordIter { rest: line };
        while let Some(is_quoted) = words.next_to(&mut word) {
            if word == b"--" && !is_quoted {
                break;
            }
            parsed.add(&word)?;
        }
        Ok(parsed)
    }

    fn add(&mut self, word: &[u8]) -> Result<(), Errno> {
        match (word.strip_prefix(b"mount=").map(Value::new), word.strip_prefix(b"workdir=")) {
            (Some(Some(mount)), _) => try_push(&mut self.mounts, mount.try_to_option()?)?,
            (_, Some(path)) if is_absolute(path) => {
                self.working_directory = Some(try_to_vec(path)?);
            }
            (None, None) => (),
            _ => try_push(&mut self.malformed, try_to_vec(word)?)?,
        }
        Ok(())
    }
}

/// The value of an option, which is valid.
struct Value<'a> {
    tag: &'a [u8],
    path: &'a [u8],
    is_read_only: bool,
}

impl<'a> Value<'a> {
    fn new(value: &'a [u8]) -> Option<Self> {
        let colon = value.iter().position(|&byte| byte == b':')?;
        let (tag, path) = (value.get(..colon)?, value.get(colon + 1..)?);
        let (path, is_read_only) = match (path.strip_suffix(READ_ONLY), path.strip_suffix(WRITABLE)) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => (path, false),
        };
        let is_valid =
            (1..=MAX_TAG).contains(&tag.len()) && is_absolute(path) && path.iter().any(|&byte| byte != b'/');
        is_valid.then_some(Self { tag, path, is_read_only })
    }

    fn try_to_option(&self) -> Result<MountOption, Errno> {
        let Self { tag, path, is_read_only } = *self;
        Ok(MountOption { tag: try_to_vec(tag)?, path: try_to_vec(path)?, is_read_only })
    }
}

fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.contains(&0)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{MountOption, MountOptions};
    use crate::command_line::Encoder;

    fn option(tag: &str, path: &[u8], is_read_only: bool) -> MountOption {
        MountOption { tag: tag.into(), path: path.to_vec(), is_read_only }
    }

    #[test]
    fn mounts_are_parsed_in_order() {
        let parsed =
            MountOptions::parse(b"a.boot mount=fs0:/srv:ro env=A mount=fs1:/a:b -- mount=fs2:/x").unwrap();
        assert_eq!(parsed.mounts, [option("fs0", b"/srv", true), option("fs1", b"/a:b", false)]);
        assert_eq!(parsed.malformed, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn invalid_mounts_are_malformed() {
        let long = alloc::format!("mount={}:/a", "x".repeat(37));
        for word in
            ["mount=", "mount=fs0", "mount=fs0:", "mount=:/a", "mount=fs0:a", "mount=fs0://:ro", &long]
        {
            let parsed = MountOptions::parse(word.as_bytes()).unwrap();
            assert_eq!((parsed.mounts.len(), &parsed.malformed[..]), (0, &[word.as_bytes().to_vec()][..]));
        }
    }

    #[test]
    fn last_absolute_working_directory_is_used() {
        let parsed = MountOptions::parse(b"workdir=/a \"workdir=/b c\" workdir=d -- workdir=/e").unwrap();
        assert_eq!(parsed.working_directory.as_deref(), Some(b"/b c".as_slice()));
        assert_eq!(parsed.malformed, [b"workdir=d"]);
        assert_eq!(MountOptions::parse(b"workdir -- workdir=/e").unwrap(), MountOptions::default());
    }

    proptest! {
        #[test]
        fn parse_inverts_encode(name in vec(1..=u8::MAX, 0..20), is_read_only in any::<bool>()) {
            let path = [b"/a".as_slice(), &name].concat();
            let mut encoder = Encoder::new();
            encoder.mount("tag", &path, is_read_only);
            encoder.working_directory(&path);
            let parsed = MountOptions::parse(&encoder.finish()).unwrap();
            prop_assert_eq!(parsed.mounts, [option("tag", &path, is_read_only)]);
            prop_assert_eq!(parsed.working_directory, Some(path));
        }
    }
}
