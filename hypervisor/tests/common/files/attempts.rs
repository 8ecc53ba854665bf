//! Attempts of a hostile guest on a mounted folder.
//!
//! Each attempt is one request or a few, and the errno with which the server must reply. The attempts use
//! names that lead out of the folder, symbolic links, special files, node and handle numbers that the server
//! has not given, wrong sizes, and malformed chains.

use hermit_fuse::flags::SetattrValid;
use hermit_fuse::request::{
    CreateIn, LinkIn, MkdirIn, OpenIn, ReadIn, ReleaseIn, Rename2In, SetattrIn, WriteIn,
};
use hermit_fuse::{Opcode, ROOT_NODE};
use libc::{
    EACCES, EBADF, EINVAL, EISDIR, ELOOP, ENOSYS, ENOTDIR, EOPNOTSUPP, EPERM, ESTALE, O_CREAT, O_RDWR,
    O_WRONLY,
};
use zerocopy::{FromZeros, IntoBytes};

use super::driver::{Driver, Expected, INDIRECT, NEXT, Number, REPLY, REQUEST, ROOM, Request, WRITE};
use super::folder::{GUEST_TEXT, SECRET};
use super::{Assembled, Machine};

/// Exit status of a guest that has read the file outside.
const HAS_READ: u8 = 3;

/// Names that are not a single component of a path.
const NO_COMPONENT: [&str; 8] = ["", ".", "..", "/etc/passwd", "../outside", "victim/..", "victim/", "a\0b"];

/// A node or handle number that the device never gives.
const UNKNOWN: u64 = 1 << 40 | 77;

fn name(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn lookup(name: &str) -> Request {
    Request::names(Opcode::Lookup, ROOT_NODE, &[name])
}

fn open(flags: i32) -> Request {
    Request::new(Opcode::Open, 0, &OpenIn { flags: flags.cast_unsigned(), unused: 0 }, &[])
}

fn create(file: &str, flags: i32) -> Request {
    let create = CreateIn { flags: flags.cast_unsigned(), mode: 0o666, ..CreateIn::new_zeroed() };
    Request::new(Opcode::Create, ROOT_NODE, &create, &name(file))
}

fn read(size: u32) -> Request {
    Request::new(Opcode::Read, 0, &ReadIn { size, ..ReadIn::new_zeroed() }, &[])
}

fn write(size: u32, data: &[u8]) -> Request {
    Request::new(Opcode::Write, 0, &WriteIn { size, ..WriteIn::new_zeroed() }, data)
}

fn set(valid: SetattrValid, set: SetattrIn) -> Request {
    Request::new(Opcode::Setattr, 0, &SetattrIn { valid: valid.bits(), ..set }, &[])
}

fn rename(newdir: u64, from: &str, to: &str) -> Request {
    let body = Rename2In { newdir, flags: 0, padding: 0 };
    Request::new(Opcode::Rename2, ROOT_NODE, &body, &[name(from), name(to)].concat())
}

/// Makes all attempts, and returns the expected results.
pub(crate) fn attempt_all(machine: &mut impl Machine) -> Result<Vec<Expected>, iced_x86::IcedError> {
    let mut driver = Driver::new(machine);
    driver.check_device()?;
    driver.start()?;
    names(&mut driver)?;
    symlinks(&mut driver)?;
    special_files(&mut driver)?;
    numbers(&mut driver)?;
    sizes(&mut driver)?;
    chains(&mut driver)?;
    driver.finish()
}

/// Names that lead out of a directory.
fn names(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    for bad in NO_COMPONENT {
        let bad_name = name(bad);
        driver.attempt(&format!("lookup of {bad:?}"), &lookup(bad), EINVAL)?;
        driver.attempt(&format!("creation of {bad:?}"), &create(bad, O_RDWR), EINVAL)?;
        let made = Request::new(Opcode::Mkdir, ROOT_NODE, &MkdirIn { mode: 0o777, umask: 0 }, &bad_name);
        driver.attempt(&format!("mkdir of {bad:?}"), &made, EINVAL)?;
        driver.attempt(&format!("renaming to {bad:?}"), &rename(ROOT_NODE, "victim", bad), EINVAL)?;
    }
    let unterminated = Request::new(Opcode::Lookup, ROOT_NODE, b"victim", &[]);
    driver.attempt("lookup of a name without a NUL", &unterminated, EINVAL)?;
    driver.attempt("removal of ..", &Request::names(Opcode::Rmdir, ROOT_NODE, &[".."]), EINVAL)
}

/// Symbolic links of the host, and of the guest itself.
fn symlinks(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    let target = "../outside/secret";
    driver.attempt("symlink", &Request::names(Opcode::Symlink, ROOT_NODE, &["own", target]), 0)?;
    for link in ["absolute", "relative", "own"] {
        driver.attempt(&format!("lookup of the link {link}"), &lookup(link), 0)?;
        let node = driver.keep(0)?;
        driver.attempt("reading of a link's target", &open(O_RDWR).of(node), ELOOP)?;
        driver.attempt("opening a link by its name", &create(link, O_RDWR | O_CREAT), ELOOP)?;
        let below = Request::names(Opcode::Lookup, 0, &["secret"]).of(node);
        driver.attempt("lookup below a link", &below, ENOTDIR)?;
        let listed = Request::new(Opcode::Opendir, 0, &OpenIn::new_zeroed(), &[]).of(node);
        driver.attempt("listing of a link", &listed, ELOOP)?;
        driver.attempt("truncation", &set(SetattrValid::SIZE, SetattrIn::new_zeroed()).of(node), ELOOP)?;
        let mode = set(SetattrValid::MODE, SetattrIn { mode: 0o4777, ..SetattrIn::new_zeroed() });
        driver.attempt("chmod of a link", &mode.of(node), EOPNOTSUPP)?;
        // Must make a hard link to the symbolic link itself, not to its target.
        let linked =
            Request::new(Opcode::Link, ROOT_NODE, &LinkIn { oldnodeid: 0 }, &name(&format!("{link}2")));
        driver.attempt("hard link", &linked.with(0, node), 0)?;
    }
    Ok(())
}

/// FIFOs and device nodes.
fn special_files(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    driver.attempt("lookup of a FIFO", &lookup("fifo"), 0)?;
    let fifo = driver.keep(0)?;
    for flags in [0, O_WRONLY, O_RDWR] {
        driver.attempt("opening of a FIFO", &open(flags).of(fifo), EACCES)?;
    }
    for mode in [0o020_666_u32, 0o060_666, 0o010_666, 0o140_666, 0o100_666] {
        // /dev/mem.
        let node = Request::new(Opcode::Mknod, ROOT_NODE, &[mode, 0x101, 0, 0], &name("node"));
        driver.attempt(&format!("mknod {mode:o}"), &node, EPERM)?;
    }
    Ok(())
}

/// Node and handle numbers that were never given, or are no longer valid.
fn numbers(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    for node in [0, 1 << 32 | 2, UNKNOWN, u64::MAX] {
        let lookup = Request::names(Opcode::Lookup, node, &["secret"]);
        driver.attempt(&format!("lookup in node {node:#x}"), &lookup, ESTALE)?;
        let rename = rename(node, "victim", "taken");
        driver.attempt(&format!("renaming to node {node:#x}"), &rename, ESTALE)?;
    }
    driver.attempt("creation", &create("own file", O_RDWR), 0)?;
    let (node, handle) = (driver.keep(0)?, driver.keep(128)?);
    let release = Request::new(Opcode::Release, 0, &ReleaseIn::new_zeroed(), &[]);
    driver.attempt("release", &release.with(0, handle), 0)?;
    driver.attempt("reading of a released handle", &read(8).with(0, handle), EBADF)?;
    for fh in [0, 1, 5, UNKNOWN, u64::MAX] {
        let read =
            Request::new(Opcode::Read, ROOT_NODE, &ReadIn { fh, size: 8, ..ReadIn::new_zeroed() }, &[]);
        driver.attempt(&format!("reading of handle {fh:#x}"), &read, EBADF)?;
        let size = SetattrIn { fh, ..SetattrIn::new_zeroed() };
        let truncate = set(SetattrValid::SIZE | SetattrValid::FH, size).of(node);
        driver.attempt(&format!("truncation of handle {fh:#x}"), &truncate, EBADF)?;
    }
    let root = Request::new(Opcode::Open, ROOT_NODE, &OpenIn::new_zeroed(), &[]);
    driver.attempt("opening of the root as a file", &root, EISDIR)?;
    for opcode in [Opcode::Setupmapping, Opcode::Ioctl, Opcode::CopyFileRange, Opcode::Setxattr] {
        driver.attempt(&format!("{opcode:?}"), &Request::new(opcode, ROOT_NODE, &[0_u8; 64], &[]), ENOSYS)?;
    }
    Ok(())
}

/// Requests that exceed the device's limits, or whose length fields are wrong.
fn sizes(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    driver.attempt("opening", &create("own file", O_RDWR), 0)?;
    let handle = driver.keep(128)?;
    for size in [(1 << 20) + 1, 1 << 30, u32::MAX] {
        driver.attempt(&format!("read of {size}"), &read(size).with(0, handle), EINVAL)?;
        driver.attempt(&format!("write of {size}"), &write(size, b"data").with(0, handle), EINVAL)?;
    }
    driver.attempt("write of more than there is", &write(5, b"data").with(0, handle), EINVAL)?;
    for len in [0, 39, 100, 1 << 30, u32::MAX] {
        let mut forged = lookup("victim");
        forged.header.len = len;
        driver.attempt(&format!("length {len}"), &forged, EINVAL)?;
    }
    for unique in [0, 1, u64::MAX] {
        let mut forged = lookup("victim");
        forged.header.unique = unique;
        driver.attempt(&format!("identifier {unique:#x}"), &forged, 0)?;
    }
    Ok(())
}

/// Malformed chains.
fn chains(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    let (request, reply) = (u64::from(REQUEST), u64::from(REPLY));
    driver.store(REQUEST, lookup("victim").header.as_bytes())?;
    let whole = (reply, ROOM, WRITE, 0);
    let chains: [(&str, &[_]); 9] = [
        ("no reply", &[(request, 47, 0, 0)]),
        ("no request", &[whole]),
        ("an empty chain", &[(request, 0, 0, 0)]),
        ("a loop", &[(request, 47, NEXT, 0)]),
        ("a reply before the request", &[(reply, ROOM, WRITE | NEXT, 1), (request, 47, 0, 0)]),
        ("memory that does not exist", &[(u64::MAX - 8, 47, NEXT, 1), whole]),
        ("a reply of a gibibyte", &[(request, 47, NEXT, 1), (reply, 1 << 30, WRITE, 0)]),
        ("a next descriptor outside of the table", &[(request, 47, NEXT, 800)]),
        ("an indirect table of half a descriptor", &[(request, 8, INDIRECT, 0)]),
    ];
    chains.into_iter().try_for_each(|(name, chain)| driver.invalid_chain(name, chain))
}

/// Races with a program of the host that keeps exchanging the names of a directory and a symbolic link. Looks
/// up both names and works in the directory that it finds, `times` times. Exits with [`HAS_READ`] if it has
/// read the file outside.
pub(crate) fn race(machine: &mut impl Machine, times: u32) -> Assembled {
    let mut driver = Driver::new(machine);
    driver.check_device()?;
    driver.start()?;
    driver.repeat(times, |driver| {
        // At any time one of the names is the directory, so the guest always finds it, however slow the
        // exchange is.
        ["victim", "absolute"].into_iter().try_for_each(|name| {
            driver.request(&lookup(name))?;
            let directory = driver.keep(0)?;
            work_in(driver, directory)?;
            forget(driver, directory)
        })
    })
}

/// Reads and writes `secret` in a directory, and makes and removes a file.
fn work_in(driver: &mut Driver<'_, impl Machine>, directory: Number) -> Assembled {
    let body = CreateIn { flags: O_RDWR.cast_unsigned(), mode: 0o666, ..CreateIn::new_zeroed() };
    for file in ["secret", "new"] {
        driver.request(&Request::new(Opcode::Create, 0, &body, &name(file)).of(directory))?;
        let (node, handle) = (driver.keep(0)?, driver.keep(128)?);
        driver.request(&read(8).with(0, handle))?;
        driver.exit_if_read(*SECRET, HAS_READ)?;
        driver.request(&write(8, GUEST_TEXT).with(0, handle))?;
        driver.request(&Request::new(Opcode::Release, 0, &ReleaseIn::new_zeroed(), &[]).with(0, handle))?;
        forget(driver, node)?;
    }
    driver.request(&Request::names(Opcode::Unlink, 0, &["new"]).of(directory))
}

fn forget(driver: &mut Driver<'_, impl Machine>, node: Number) -> Assembled {
    driver.request(&Request::new(Opcode::Forget, 0, &1_u64, &[]).of(node))
}
