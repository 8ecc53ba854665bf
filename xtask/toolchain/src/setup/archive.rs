//! Adds members to archives of object files (`ar`).
//!
//! Rust's libraries are such archives. Linkers read the symbols of each member, so the archive's index need
//! not contain the symbols of the new members.

use anyhow::{Context, Result, ensure};

/// First bytes of an archive.
const MAGIC: &[u8] = b"!<arch>\n";

/// An archive without members.
pub(super) const EMPTY: &[u8] = MAGIC;

/// Size in bytes of the header of a member, and the positions of the fields name and size in that header.
const HEADER: usize = 60;
const NAME: usize = 16;
const SIZE: std::ops::Range<usize> = 48..58;

/// Returns the archive with `members` at its end, which are pairs of a name of at most 15 bytes and the
/// contents. If the archive has a member with one of these names, that member and all later ones are removed
/// first: an earlier call has added them.
pub(super) fn with_members(archive: &[u8], members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    ensure!(archive.starts_with(MAGIC), "it is no archive");
    let mut end = MAGIC.len();
    while end < archive.len() {
        let header = archive.get(end..end + HEADER).context("the archive is truncated")?;
        let name = str::from_utf8(&header[..NAME])?.trim_end().trim_end_matches('/');
        if members.iter().any(|(added, _)| *added == name) {
            break;
        }
        let size: usize = str::from_utf8(&header[SIZE])?.trim_end().parse()?;
        end = (end + HEADER + size).next_multiple_of(2);
    }
    let mut extended = archive.get(..end).context("the archive is truncated")?.to_vec();
    for (name, contents) in members {
        ensure!(name.len() < NAME, "the name {name} is too long");
        let name = format!("{name}/");
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, contents.len());
        extended.extend_from_slice(header.as_bytes());
        extended.extend_from_slice(contents);
        if extended.len() % 2 != 0 {
            extended.push(b'\n');
        }
    }
    Ok(extended)
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, with_members};
    use object::read::archive::ArchiveFile;

    fn members(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        let file = ArchiveFile::parse(archive).unwrap();
        let member = |member: object::read::Result<object::read::archive::ArchiveMember<'_>>| {
            let member = member.unwrap();
            let name = String::from_utf8(member.name().to_vec()).unwrap();
            (name, member.data(archive).unwrap().to_vec())
        };
        file.members().map(member).collect()
    }

    #[test]
    fn members_are_added_and_replaced() {
        let old = with_members(MAGIC, &[("lib.rmeta", b"odd"), ("code.o", b"even")]).unwrap();
        let one = with_members(&old, &[("kernel.o", b"first"), ("net.o", b"1")]).unwrap();
        let two = with_members(&one, &[("kernel.o", b"second"), ("net.o", b"22")]).unwrap();
        let expected = [("lib.rmeta", "odd"), ("code.o", "even"), ("kernel.o", "second"), ("net.o", "22")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        assert_eq!(members(&two), expected);
    }

    #[test]
    fn what_is_no_archive_is_an_error() {
        let archive = with_members(MAGIC, &[("code.o", b"even")]).unwrap();
        for bytes in [&b"text"[..], &archive[..MAGIC.len() + 7], &archive[..archive.len() - 1]] {
            assert!(with_members(bytes, &[("kernel.o", b"")]).is_err());
        }
        assert!(with_members(MAGIC, &[("a name that is too long", b"")]).is_err());
    }
}
