//! A client of FUSE on a test driver.

use std::path::Path;

use hermit_fuse::dirent::Records;
use hermit_fuse::flags::{InitFlags, SetattrValid};
use hermit_fuse::reply::{AttrOut, EntryOut, InitOut, OpenOut, WriteOut};
use hermit_fuse::request::{
    CreateIn, GetattrIn, InitIn, LinkIn, MkdirIn, OpenIn, ReadIn, ReleaseIn, Rename2In, SetattrIn, WriteIn,
};
use hermit_fuse::{InHeader, MAJOR_VERSION, MINOR_VERSION, Opcode, OutHeader, ROOT_NODE};
use hermit_options::mount::{CachePolicy, MountConfig};
use rustix::io::Errno;
use tempfile::TempDir;
use virtio_queue::Queue;
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::super::FileSystem;
use crate::devices::virtio::VirtioDevice;
use crate::devices::virtio::test_utils::{BUFFERS, TestDriver};

/// Addresses of request and reply in guest memory.
const REQUEST: u64 = BUFFERS;
const REPLY: u64 = 0x20_0000;

/// Room for a reply in bytes.
const ROOM: u32 = 0x11_0000;

/// Descriptors that the device may keep: 48 nodes, 16 handles.
pub(super) const DESCRIPTORS: usize = 64;

/// Flags of open(2).
pub(super) const O_RDONLY: u32 = 0;
pub(super) const O_WRONLY: u32 = 1;
pub(super) const O_RDWR: u32 = 2;
pub(super) const O_EXCL: u32 = 0o200;
pub(super) const O_TRUNC: u32 = 0o1000;
pub(super) const O_APPEND: u32 = 0o2000;

pub(super) type Outcome<T> = Result<T, Errno>;

/// A device on a temporary folder, and its driver.
pub(super) struct Client {
    pub(super) folder: TempDir,
    pub(super) device: FileSystem,
    pub(super) driver: TestDriver,
    queue: Queue,
}

impl Client {
    /// Client of a folder that can be written, with an open session.
    pub(super) fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap(), false, CachePolicy::Auto)
    }

    pub(super) fn with(folder: TempDir, read_only: bool, cache: CachePolicy) -> Self {
        let mut client = Self::without_session(folder, read_only, cache);
        client.init().unwrap();
        client
    }

    pub(super) fn without_session(folder: TempDir, read_only: bool, cache: CachePolicy) -> Self {
        let device = device(folder.path(), read_only, cache);
        let driver = TestDriver::new(256);
        let queue = driver.queue();
        Self { folder, device, driver, queue }
    }

    /// Sends bytes as a chain of these readable and writable sizes, and returns the reply's bytes.
    pub(super) fn exchange(&mut self, request: &[u8], room: u32) -> Vec<u8> {
        self.driver.memory.write_slice(request, GuestAddress(REQUEST)).unwrap();
        let readable = (REQUEST, u32::try_from(request.len()).unwrap(), false);
        self.driver.send(&[readable, (REPLY, room, true)]);
        self.device.process(1, &mut self.queue, &self.driver.memory).unwrap();
        let used = self.driver.used();
        assert_eq!(used.len(), 1);
        self.driver.bytes(REPLY, usize::try_from(used[0].1).unwrap())
    }

    /// Sends a request, and returns what follows the header of the reply.
    pub(super) fn request(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> Outcome<Vec<u8>> {
        let size = size_of::<InHeader>() + body.len();
        let len = u32::try_from(size).unwrap();
        let header = InHeader { len, opcode, unique: 77, nodeid, ..InHeader::default() };
        let reply = self.exchange(&[header.as_bytes(), body].concat(), ROOM);
        let (header, rest) = OutHeader::read_from_prefix(&reply).unwrap();
        assert_eq!((usize::try_from(header.len), header.unique), (Ok(reply.len()), 77));
        match header.error {
            0 => Ok(rest.to_vec()),
            error => {
                assert!(rest.is_empty());
                Err(Errno::from_raw_os_error(-error))
            }
        }
    }

    /// Sends a request of a structure and bytes, and returns the reply's structure.
    pub(super) fn call<T: FromBytes>(
        &mut self,
        opcode: Opcode,
        node: u64,
        body: &(impl IntoBytes + Immutable),
        rest: &[u8],
    ) -> Outcome<T> {
        let reply = self.request(opcode.number(), node, &[body.as_bytes(), rest].concat())?;
        Ok(T::read_from_bytes(&reply).unwrap())
    }

    pub(super) fn init(&mut self) -> Outcome<InitOut> {
        let flags = InitFlags::all().bits();
        let init = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION, max_readahead: 1 << 17, flags };
        self.call(Opcode::Init, 0, &init, &[0; 48])
    }

    pub(super) fn lookup(&mut self, parent: u64, name: &str) -> Outcome<EntryOut> {
        self.call(Opcode::Lookup, parent, &[0_u8; 0], &nul(name))
    }

    /// Node of a path of several components.
    pub(super) fn walk(&mut self, path: &str) -> u64 {
        path.split('/').fold(ROOT_NODE, |node, name| self.lookup(node, name).unwrap().nodeid)
    }

    pub(super) fn getattr(&mut self, node: u64) -> Outcome<AttrOut> {
        self.call(Opcode::Getattr, node, &GetattrIn::default(), &[])
    }

    pub(super) fn setattr(&mut self, node: u64, valid: SetattrValid, set: SetattrIn) -> Outcome<AttrOut> {
        self.call(Opcode::Setattr, node, &SetattrIn { valid: valid.bits(), ..set }, &[])
    }

    pub(super) fn open(&mut self, node: u64, flags: u32) -> Outcome<u64> {
        let open: OpenOut = self.call(Opcode::Open, node, &OpenIn { flags, unused: 0 }, &[])?;
        Ok(open.fh)
    }

    pub(super) fn opendir(&mut self, node: u64) -> Outcome<u64> {
        let open: OpenOut = self.call(Opcode::Opendir, node, &OpenIn::default(), &[])?;
        Ok(open.fh)
    }

    pub(super) fn create(
        &mut self,
        parent: u64,
        name: &str,
        flags: u32,
        mode: u32,
    ) -> Outcome<(EntryOut, u64)> {
        let create = CreateIn { flags, mode, umask: 0o022, padding: 0 };
        let body = [create.as_bytes(), &nul(name)].concat();
        let reply = self.request(Opcode::Create.number(), parent, &body)?;
        let (entry, rest) = EntryOut::read_from_prefix(&reply).unwrap();
        Ok((entry, OpenOut::read_from_bytes(rest).unwrap().fh))
    }

    pub(super) fn read(&mut self, fh: u64, offset: u64, size: u32) -> Outcome<Vec<u8>> {
        let read = ReadIn { fh, offset, size, ..ReadIn::default() };
        self.request(Opcode::Read.number(), 0, read.as_bytes())
    }

    pub(super) fn write(&mut self, fh: u64, offset: u64, data: &[u8]) -> Outcome<u32> {
        let size = u32::try_from(data.len()).unwrap();
        let write = WriteIn { fh, offset, size, ..WriteIn::default() };
        let out: WriteOut = self.call(Opcode::Write, 0, &write, data)?;
        Ok(out.size)
    }

    pub(super) fn release(&mut self, fh: u64) -> Outcome<()> {
        let release = ReleaseIn { fh, ..ReleaseIn::default() };
        self.request(Opcode::Release.number(), 0, release.as_bytes()).map(drop)
    }

    pub(super) fn mkdir(&mut self, parent: u64, name: &str, mode: u32) -> Outcome<EntryOut> {
        self.call(Opcode::Mkdir, parent, &MkdirIn { mode, umask: 0o022 }, &nul(name))
    }

    pub(super) fn symlink(&mut self, parent: u64, name: &str, target: &str) -> Outcome<EntryOut> {
        self.call(Opcode::Symlink, parent, &[0_u8; 0], &[nul(name), nul(target)].concat())
    }

    pub(super) fn link(&mut self, node: u64, parent: u64, name: &str) -> Outcome<EntryOut> {
        self.call(Opcode::Link, parent, &LinkIn { oldnodeid: node }, &nul(name))
    }

    pub(super) fn remove(&mut self, opcode: Opcode, parent: u64, name: &str) -> Outcome<()> {
        self.request(opcode.number(), parent, &nul(name)).map(drop)
    }

    pub(super) fn rename(
        &mut self,
        (parent, name): (u64, &str),
        (newdir, new): (u64, &str),
        flags: u32,
    ) -> Outcome<()> {
        let rename = Rename2In { newdir, flags, padding: 0 };
        let body = [rename.as_bytes(), &nul(name), &nul(new)].concat();
        self.request(Opcode::Rename2.number(), parent, &body).map(drop)
    }

    /// Names and nodes of a directory, and the offset behind the last; nodes are 0 without `is_plus`.
    pub(super) fn entries(
        &mut self,
        (node, fh): (u64, u64),
        offset: u64,
        size: u32,
        is_plus: bool,
    ) -> Outcome<(Vec<(String, u64)>, u64)> {
        let opcode = if is_plus { Opcode::Readdirplus } else { Opcode::Readdir };
        let read = ReadIn { fh, offset, size, ..ReadIn::default() };
        let reply = self.request(opcode.number(), node, read.as_bytes())?;
        let mut records = Records::new(&reply, is_plus);
        let (mut names, mut offset) = (Vec::new(), offset);
        for record in &mut records {
            let node = record.entry.map_or(0, |entry| entry.nodeid);
            names.push((String::from_utf8(record.name.to_vec()).unwrap(), node));
            offset = record.dirent.off;
        }
        assert!(records.rest().is_empty());
        Ok((names, offset))
    }

    /// A path on the host.
    pub(super) fn host(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }
}

pub(super) fn device(path: &Path, read_only: bool, cache: CachePolicy) -> FileSystem {
    let mount = MountConfig { host: path.to_owned(), guest: "/srv".to_owned(), read_only, cache };
    FileSystem::new("fs0".to_owned(), &mount, DESCRIPTORS).unwrap()
}

/// A string with a NUL behind it.
pub(super) fn nul(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
