//! Calls that start a part of the kernel for the first time. At first there is no memory, and then more and
//! more memory. The calls fail with an error, and succeed in the end.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path;

use hermit_abi::{EEXIST, ENOENT, ENOMEM, ENOSPC};

use super::calls;
use super::memory::HeapBlock;

/// Maximum number of blocks that exhaust the memory.
const MAX_BLOCKS: usize = 1 << 16;

/// Sizes of the blocks in bytes, the largest first.
const SIZES: [usize; 13] =
    [64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 512, 256, 128, 64, 32, 16];

/// The file system.
pub(crate) fn exhausted() {
    fails_until_there_is_memory("a file", || File::create("/file").map(drop));
}

/// The file system, without memory and then with all memory. This is the check for a heap that frees only the
/// last block: a call that fails when it has used some memory may leave a block behind, and then none of the
/// blocks before it is ever free again.
pub(crate) fn exhausted_once() {
    let mut blocks = exhaust();
    let error = File::create("/file").expect_err("there is no memory");
    assert_eq!(error.raw_os_error(), Some(ENOMEM));
    while blocks.pop().is_some() {}
    File::create("/file").expect("there is memory");
}

/// The first disk.
pub(crate) fn exhausted_disk() {
    fails_until_there_is_memory("a disk", || File::open("/dev/vda").map(drop));
}

/// The network: a first socket.
pub(crate) fn exhausted_network() {
    // If the address were a text, its parsing would allocate a list of addresses.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 7000));
    fails_until_there_is_memory("a socket", || TcpListener::bind(address).map(drop));
}

/// A folder of the host. The test has a file in it.
pub(crate) fn exhausted_folder() {
    fails_until_there_is_memory("a folder", || {
        let (mut file, mut text) = (File::open("/srv/file")?, [0; 100]);
        let length = file.read(&mut text)?;
        assert_eq!(&text[..length], b"text of the host");
        Ok(())
    });
}

/// Operations on files, in memory and in a folder of the host, while there is no memory at first, and then
/// more and more memory.
pub(crate) fn exhausted_files() {
    for folder in ["/tmp", "/srv"] {
        fs::create_dir(format!("{folder}/first")).expect("there is memory");
    }
    let mut failures = 0;
    for folder in ["/tmp", "/srv"] {
        for (name, operation) in OPERATIONS {
            failures += count_failures(&format!("{name} in {folder}"), &FULL, || operation(folder));
        }
    }
    assert!(failures > 0, "no operation took memory");
}

/// Errors of operations on files: one in memory that cannot grow says that there is no space, as on Linux.
const FULL: [i32; 2] = [ENOMEM, ENOSPC];

/// An operation on files in a folder.
type Operation = fn(&str) -> io::Result<()>;

/// Operations that are called in this order, each again until it succeeds.
const OPERATIONS: [(&str, Operation); 14] = [
    ("creating", |folder| File::create(Path::of(folder, "/a")).map(drop)),
    ("writing", |folder| fs::write(Path::of(folder, "/a"), PAGES)),
    ("small writes", |folder| {
        let mut file = File::create(Path::of(folder, "/b"))?;
        (0..100).try_for_each(|_| file.write_all(b"a line of text\n"))
    }),
    ("reading", |folder| {
        let (mut file, mut bytes) = (File::open(Path::of(folder, "/a"))?, [0; 64]);
        (0..100).try_for_each(|_| file.read_exact(&mut bytes))
    }),
    ("cutting", |folder| File::options().write(true).open(Path::of(folder, "/a"))?.set_len(5000)),
    ("a directory", |folder| done(fs::create_dir(Path::of(folder, "/d")))),
    ("renaming", |folder| done_if(fs::rename(Path::of(folder, "/b"), Path::of(folder, "/d/c")), ENOENT)),
    ("a link", |folder| done(fs::hard_link(Path::of(folder, "/a"), Path::of(folder, "/d/link")))),
    ("metadata", |folder| fs::metadata(Path::of(folder, "/d/link")).map(drop)),
    ("an absent name", |folder| done_if(fs::metadata(Path::of(folder, "/none")).map(drop), ENOENT)),
    ("listing", |folder| {
        let (directory, mut entries) = (File::open(Path::of(folder, ""))?, [0; 1024]);
        while calls::getdents(directory.as_raw_fd(), &mut entries).map_err(io::Error::from_raw_os_error)? > 0
        {
        }
        Ok(())
    }),
    ("the current directory", |folder| {
        env::set_current_dir(Path::of(folder, "/d/../d"))?;
        File::open("c").map(drop)?;
        env::set_current_dir("/")
    }),
    ("procfs", |_| ["/proc/self/maps", "/proc/mounts"].into_iter().try_for_each(read_all)),
    ("removing", |folder| done_if(fs::remove_file(Path::of(folder, "/d/c")), ENOENT)),
];

/// Reads a file to its end.
fn read_all(path: &str) -> io::Result<()> {
    let (mut file, mut buffer) = (File::open(path)?, [0; 100]);
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Bytes of one write.
const PAGES: [u8; 3 * 4096 + 100] = [7; 3 * 4096 + 100];

/// A path that takes no memory.
struct Path {
    bytes: [u8; 32],
    length: usize,
}

impl Path {
    fn of(folder: &str, name: &str) -> Self {
        let (mut bytes, length) = ([0; 32], folder.len() + name.len());
        bytes[..folder.len()].copy_from_slice(folder.as_bytes());
        bytes[folder.len()..length].copy_from_slice(name.as_bytes());
        Self { bytes, length }
    }
}

impl AsRef<path::Path> for Path {
    fn as_ref(&self) -> &path::Path {
        path::Path::new(str::from_utf8(&self.bytes[..self.length]).expect("the parts are text"))
    }
}

/// Converts the result of an operation. An earlier call may have carried the operation out before it failed.
fn done(result: io::Result<()>) -> io::Result<()> {
    done_if(result, EEXIST)
}

fn done_if(result: io::Result<()>, errno: i32) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        result => result,
    }
}

fn fails_until_there_is_memory(name: &str, action: impl Fn() -> io::Result<()>) {
    let failures = count_failures(name, &[ENOMEM], action);
    assert!(failures > 0, "{name} took no memory");
}

/// Calls an action until it succeeds. At first there is no memory, and after each failure a little more.
/// Returns the number of failures. Panics if the error is not one of the accepted ones.
fn count_failures(name: &str, accepted: &[i32], action: impl Fn() -> io::Result<()>) -> u32 {
    let mut blocks = exhaust();
    let mut failures = 0;
    while let Err(error) = action() {
        let is_accepted = error.raw_os_error().is_some_and(|number| accepted.contains(&number));
        assert!(is_accepted, "{name}, after {failures} failures: {error}");
        failures += 1;
        assert!(blocks.pop().is_some(), "{name} fails with all memory free");
    }
    drop(blocks);
    println!("{name} failed {failures} times");
    failures
}

/// Allocates blocks until there is no memory, small ones last.
fn exhaust() -> Vec<HeapBlock> {
    let mut blocks = Vec::with_capacity(MAX_BLOCKS);
    for size in SIZES {
        while blocks.len() < MAX_BLOCKS {
            let Ok(block) = HeapBlock::allocate(size, 16) else { break };
            blocks.push(block);
        }
    }
    assert!(blocks.len() < MAX_BLOCKS, "the machine has too much memory for this check");
    blocks
}
