//! A client of FUSE on a test driver.

use hermit_fuse::dirent::Records;
use hermit_fuse::flags::SetattrValid;
use hermit_fuse::reply::{AttrOut, EntryOut, InitOut, OpenOut, WriteOut};
use hermit_fuse::request::{
    CreateIn, ForgetIn, GetattrIn, LinkIn, MkdirIn, OpenIn, ReadIn, ReleaseIn, Rename2In, SetattrIn, WriteIn,
};
use hermit_fuse::{InHeader, Opcode, ROOT_NODE};
use hermit_options::mount::CachePolicy;
use rustix::io::Errno;
use tempfile::TempDir;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::devices::fuzzing::FilesClient;

/// Flags of open(2).
pub(super) const O_RDONLY: u32 = 0;
pub(super) const O_WRONLY: u32 = 1;
pub(super) const O_RDWR: u32 = 2;
pub(super) const O_EXCL: u32 = 0o200;
pub(super) const O_TRUNC: u32 = 0o1000;
pub(super) const O_APPEND: u32 = 0o2000;

pub(super) type Outcome<T> = Result<T, Errno>;

/// A client of a device on a temporary folder.
pub(super) struct Client {
    pub(super) folder: TempDir,
    pub(super) files: FilesClient,
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
        let files = FilesClient::new(folder.path(), read_only, cache).unwrap();
        Self { folder, files }
    }

    /// Sends a request, and returns the reply without its header.
    pub(super) fn request(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> Outcome<Vec<u8>> {
        outcome(self.files.request(opcode, nodeid, body))
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
        Ok(InitOut::read_from_bytes(&outcome(self.files.init())?).unwrap())
    }

    pub(super) fn lookup(&mut self, parent: u64, name: &str) -> Outcome<EntryOut> {
        self.call(Opcode::Lookup, parent, &[0_u8; 0], &nul(name))
    }

    /// Node of a path of several components.
    pub(super) fn walk(&mut self, path: &str) -> u64 {
        path.split('/').fold(ROOT_NODE, |node, name| self.lookup(node, name).unwrap().nodeid)
    }

    /// Drops references to a node, for which there is no reply.
    pub(super) fn forget(&mut self, node: u64, nlookup: u64) {
        let header =
            InHeader { len: 48, opcode: Opcode::Forget.number(), nodeid: node, ..InHeader::default() };
        let request = [header.as_bytes(), ForgetIn { nlookup }.as_bytes()].concat();
        assert!(self.files.exchange(&request, 64).is_empty());
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

    /// Names and nodes of a directory, and the offset after the last entry. Nodes are 0 without `is_plus`.
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

fn outcome((errno, reply): (i32, Vec<u8>)) -> Outcome<Vec<u8>> {
    if errno == 0 { Ok(reply) } else { Err(Errno::from_raw_os_error(errno)) }
}

/// A string with a NUL at its end.
pub(super) fn nul(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
