//! Work on files: they are written, appended to, renamed, read again, cut, listed and removed.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::{collections::BTreeSet, env, process};

use crate::random::Random;

/// Maximum number of files in a round, and of bytes in each of the two parts of a file.
const MAX_FILES: usize = 8;
const MAX_PART: usize = 128 << 10;

/// Works in a folder that no other thread uses.
pub(crate) fn round(number: u64, random: &mut Random) -> io::Result<()> {
    let folder = env::temp_dir().join(format!("soak-{}-{number}", process::id()));
    fs::create_dir(&folder)?;
    let names: BTreeSet<_> = (0..=random.below(MAX_FILES)).map(|file| format!("file-{file}")).collect();
    names.iter().try_for_each(|name| write_and_read(&folder.join(name), random))?;
    let entries = fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let listed = entries.map(|name| name.map(|name| name.to_string_lossy().into_owned()));
    let listed = listed.collect::<io::Result<BTreeSet<_>>>()?;
    expect(listed == names, "the folder has other files")?;
    for name in names {
        fs::remove_file(folder.join(name))?;
    }
    fs::remove_dir(&folder)
}

fn write_and_read(path: &Path, random: &mut Random) -> io::Result<()> {
    let parts = [0; 2].map(|_| {
        let count = random.below(MAX_PART);
        random.bytes(count)
    });
    let new = path.with_extension("new");
    fs::write(&new, &parts[0])?;
    OpenOptions::new().append(true).open(&new)?.write_all(&parts[1])?;
    fs::rename(&new, path)?;
    let whole = parts.concat();
    expect(fs::read(path)? == whole, "a file has other bytes")?;
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let (start, end) = (parts[0].len(), whole.len() - parts[1].len() / 2);
    file.set_len(u64::try_from(end).map_err(io::Error::other)?)?;
    file.seek(SeekFrom::Start(u64::try_from(start).map_err(io::Error::other)?))?;
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    expect(whole.get(start..end) == Some(&rest), "the end of a file that was cut has other bytes")
}

/// Fails with a message unless a condition holds.
pub(crate) fn expect(condition: bool, message: &str) -> io::Result<()> {
    if condition { Ok(()) } else { Err(io::Error::other(message)) }
}

#[cfg(test)]
mod tests {
    use super::round;
    use crate::random::Random;

    #[test]
    fn rounds_leave_nothing_behind() {
        let mut random = Random::new(1);
        // The second one would fail to create its folder.
        round(1000, &mut random).unwrap();
        round(1000, &mut random).unwrap();
    }
}
