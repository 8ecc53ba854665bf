//! Archives in cpio's format `newc`, which Linux unpacks as its initramfs.
//!
//! Linux's `Documentation/driver-api/early-userspace/buffer-format.rst` specifies the format. An entry
//! consists of a magic number, 13 fields of eight hexadecimal digits, the name with a terminating zero, and
//! the contents. Name and contents are padded to a multiple of four bytes. An entry with the name
//! `TRAILER!!!` ends the archive.

/// Magic number of an entry.
const MAGIC: &str = "070701";

/// Name of the last entry.
const TRAILER: &str = "TRAILER!!!";

/// The type of an entry, which determines its mode.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryType<'a> {
    /// A directory.
    Directory,
    /// An executable file with its contents.
    Executable(&'a [u8]),
    /// A character device by its major and minor number.
    Device(u32, u32),
}

/// Returns an archive of entries with their paths. The caller puts each directory before its contents.
///
/// Returns `None` if a file or a name is larger than the format allows.
pub(super) fn archive(entries: &[(&str, EntryType<'_>)]) -> Option<Vec<u8>> {
    let mut archive = Vec::new();
    for (number, &(name, kind)) in (1..).zip(entries) {
        let (mode, contents, device): (u32, &[u8], _) = match kind {
            EntryType::Directory => (0o040_755, &[], (0, 0)),
            EntryType::Executable(contents) => (0o100_755, contents, (0, 0)),
            EntryType::Device(major, minor) => (0o020_600, &[], (major, minor)),
        };
        append(&mut archive, name, [number, mode, device.0, device.1], contents)?;
    }
    append(&mut archive, TRAILER, [0; 4], &[])?;
    Some(archive)
}

/// Appends an entry. `about` consists of the inode number, the mode, and the major and minor number if the
/// entry is a device.
fn append(archive: &mut Vec<u8>, name: &str, about: [u32; 4], contents: &[u8]) -> Option<()> {
    let [number, mode, major, minor] = about;
    let (size, name_size) = (u32::try_from(contents.len()).ok()?, u32::try_from(name.len() + 1).ok()?);
    // The fields: inode number, mode, user, group, links, modification time, size, major and minor number of
    // the file system's device, major and minor number of this entry if it is a device, size of the name, and
    // a checksum that this format does not use.
    let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
    archive.extend_from_slice(MAGIC.as_bytes());
    archive.extend(fields.iter().flat_map(|field| format!("{field:08X}").into_bytes()));
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(contents);
    pad(archive);
    Some(())
}

/// Pads the archive to a multiple of four bytes.
fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::{EntryType, archive};

    #[test]
    fn archive_has_the_fields_of_newc() {
        let bytes =
            archive(&[("dev", EntryType::Directory), ("dev/console", EntryType::Device(5, 1))]).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let folder = "070701\
            00000001000041ED00000000000000000000000100000000\
            000000000000000000000000000000000000000000000004\
            00000000dev\0\0\0";
        assert!(text.starts_with(folder), "{text}");
        let device = "070701\
            00000002000021800000000000000000000000010000000\
            00000000000000000000000000000000500000001\
            0000000C00000000dev/console\0\0\0";
        assert!(text[folder.len()..].starts_with(device), "{text}");
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text}");
    }

    #[test]
    fn contents_are_aligned_to_four_bytes() {
        for length in 0..9 {
            let contents = vec![b'#'; length];
            let bytes = archive(&[("init", EntryType::Executable(&contents))]).unwrap();
            assert_eq!(bytes.len() % 4, 0);
            let start = (110 + 5_usize).next_multiple_of(4);
            assert_eq!(bytes[start..start + length], contents);
            let next = (start + length).next_multiple_of(4);
            assert!(bytes[start + length..next].iter().all(|&byte| byte == 0));
            assert!(bytes[next..].starts_with(b"070701"));
        }
    }
}
