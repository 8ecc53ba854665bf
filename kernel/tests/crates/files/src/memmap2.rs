//! Maps of a file: read, private, and shared and written back; memory without a file.

use std::fs::{self, File, OpenOptions};
use std::io;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::folder::Folder;

/// The file of each map is in a folder of this run, and not made shorter while it is mapped.
#[expect(unsafe_code, reason = "memmap2 has no safe functions for files")]
mod map {
    use super::{File, Mmap, MmapMut, MmapOptions, io};

    pub fn read(file: &File) -> io::Result<Mmap> {
        // SAFETY: see the module.
        unsafe { Mmap::map(file) }
    }

    pub fn read_part(file: &File, offset: u64, len: usize) -> io::Result<Mmap> {
        // SAFETY: see the module.
        unsafe { MmapOptions::new().offset(offset).len(len).map(file) }
    }

    pub fn shared(file: &File) -> io::Result<MmapMut> {
        // SAFETY: see the module.
        unsafe { MmapMut::map_mut(file) }
    }

    pub fn private(file: &File) -> io::Result<MmapMut> {
        // SAFETY: see the module.
        unsafe { MmapOptions::new().map_copy(file) }
    }

    pub fn private_read_only(file: &File) -> io::Result<Mmap> {
        // SAFETY: see the module.
        unsafe { MmapOptions::new().map_copy_read_only(file) }
    }
}

fn error<T>(result: io::Result<T>) -> (io::ErrorKind, Option<i32>) {
    result.err().map_or((io::ErrorKind::Other, None), |error| (error.kind(), error.raw_os_error()))
}

pub fn run() -> crate_uses::Result {
    let folder = Folder::new("memmap2")?;
    let path = folder.path().join("file");
    let contents: Vec<u8> = crate_uses::numbers(5).take(300_000).map(|number| number as u8).collect();
    fs::write(&path, &contents)?;

    let file = File::open(&path)?;
    let whole = map::read(&file)?;
    let part = map::read_part(&file, 70_001, 100_000)?;
    println!("{} {}", whole[..] == contents, part[..] == contents[70_001..170_001]);
    println!("past the end: {:?}", &map::read_part(&file, 299_999, 5)?[1..]);
    let mut private = map::private(&file)?;
    private[..7].copy_from_slice(b"private");
    let read_only = private.make_read_only()?;
    println!("{:?} {}", &read_only[..8], whole[..] == contents);
    let mut writable = map::private_read_only(&file)?.make_mut()?;
    writable[3] ^= 1;
    writable.flush()?;
    println!("{}", map::read(&file)?[..] == contents);

    let both = OpenOptions::new().read(true).write(true).open(&path)?;
    let (mut one, mut two) = (map::shared(&both)?, map::shared(&both)?);
    one[1000..1005].copy_from_slice(b"first");
    two[1005..1011].copy_from_slice(b"second");
    two[290_000..290_003].copy_from_slice(b"end");
    two.flush_range(1005, 6)?;
    one.flush()?;
    println!("{:?}", String::from_utf8_lossy(&fs::read(&path)?[1000..1011]));
    drop(two);
    let mut again = one.make_read_only()?.make_mut()?;
    again[0] = b'0';
    drop(again);
    println!("{}", crate_uses::digest(&fs::read(&path)?));
    println!("length {}", both.metadata()?.len());

    let mut anonymous = MmapMut::map_anon(10_000)?;
    println!("{} {}", anonymous.len(), anonymous.iter().all(|byte| *byte == 0));
    anonymous[9_999] = 7;
    let anonymous = anonymous.make_read_only()?;
    println!("{}", anonymous[9_999]);
    File::create(folder.path().join("empty"))?;
    println!("empty: {}", map::read(&File::open(folder.path().join("empty"))?)?.len());

    println!("shared, of a file for reading: {:?}", error(map::shared(&file)));
    println!("made writable: {:?}", error(whole.make_mut()));
    let write_only = OpenOptions::new().write(true).open(&path)?;
    println!("of a file for writing: {:?}", error(map::read(&write_only)));
    println!("of a folder: {:?}", error(map::read_part(&File::open(folder.path())?, 0, 10)));
    println!("behind the end: {:?}", error(MmapOptions::new().offset(300_001).map_raw_read_only(&file)));
    println!("flush out of range: {:?}", error(MmapMut::map_anon(10)?.flush_range(5, 6)));
    Ok(())
}
