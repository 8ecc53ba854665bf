//! Requests that find, make, rename and remove names.

use std::os::fd::OwnedFd;

use hermit_fuse::Opcode;
use hermit_fuse::reply::EntryOut;
use hermit_fuse::request::{CreateIn, LinkIn, MkdirIn, Rename2In, RenameIn};
use hermit_options::mount::CachePolicy;
use rustix::fs::{AtFlags, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::super::folder::Folder;
use super::attributes::attr;
use super::{Handle, Reply, Request, RequestResult, Server};

/// Maximum number of attempts to create or open a file, while another program creates and removes it at the
/// same time.
const MAX_ATTEMPTS: usize = 8;

impl Server {
    /// Finds a name.
    pub(super) fn lookup(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let directory = self.nodes.get(request.header.nodeid)?;
        let entry = match self.find(&directory, request.name()?.bytes()) {
            // A reply with node 0 permits the guest to cache that the name does not exist.
            Err(Errno::NOENT) if self.policy.cache == CachePolicy::Always && !self.folder.is_gone() => {
                self.entry(0, None)
            }
            entry => entry?,
        };
        reply.write(&entry)
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let directory = self.nodes.get(request.header.nodeid)?;
        let (name, target) = request.name_and_target()?;
        self.require_room()?;
        Folder::make_symlink(&directory, name.bytes(), &target)?;
        reply.write(&self.find(&directory, name.bytes())?)
    }

    /// Makes a directory.
    pub(super) fn mkdir(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let MkdirIn { mode, umask } = request.read()?;
        let directory = self.nodes.get(request.header.nodeid)?;
        let name = request.name()?;
        self.require_room()?;
        Folder::make_directory(&directory, name.bytes(), self.masked(mode, umask))?;
        reply.write(&self.find(&directory, name.bytes())?)
    }

    /// Gives a file a further name.
    pub(super) fn link(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let LinkIn { oldnodeid } = request.read()?;
        let (directory, inode) = (self.nodes.get(request.header.nodeid)?, self.nodes.get(oldnodeid)?);
        let name = request.name()?;
        self.folder.link(&inode, &directory, name.bytes())?;
        reply.write(&self.find(&directory, name.bytes())?)
    }

    /// Creates and opens a file, or opens an existing one.
    pub(super) fn create(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let CreateIn { flags, mode, umask, .. } = request.read()?;
        let directory = self.nodes.get(request.header.nodeid)?;
        let name = request.name()?;
        self.require_room()?;
        self.require_handle()?;
        let (flags, mode) = (OFlags::from_bits_retain(flags), self.masked(mode, umask));
        let (inode, file) = self.create_or_open(&directory, name.bytes(), flags, mode)?;
        let status = fstat(&file)?;
        let node = self.nodes.refer(inode, &status)?;
        reply.write(&self.entry(node, Some(&status)))?;
        reply.write(&self.open_out(Handle::File(file))?)
    }

    /// Returns descriptors of the inode and of the open file. An existing file is looked up and checked
    /// before it is opened, because open(2) with `O_CREAT` would also open a FIFO or a device.
    fn create_or_open(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        flags: OFlags,
        mode: u32,
    ) -> Result<(OwnedFd, OwnedFd), Errno> {
        for _ in 0..MAX_ATTEMPTS {
            let made = if self.policy.is_read_only {
                Err(Errno::EXIST)
            } else {
                Folder::create(directory, name, flags, mode)
            };
            match made {
                Ok(file) => return Ok((self.folder.inode_of(&file)?, file)),
                Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) || self.policy.is_read_only => {}
                Err(error) => return Err(error),
            }
            match Folder::lookup(directory, name) {
                Ok(_) if flags.contains(OFlags::EXCL) => return Err(Errno::EXIST),
                Ok(inode) => return self.open_inode(&inode, flags).map(|file| (inode, file)),
                Err(Errno::NOENT) if self.policy.is_read_only => return Err(Errno::ROFS),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Removes a name.
    pub(super) fn unlink(&mut self, request: &mut Request<'_>, flags: AtFlags) -> RequestResult<()> {
        let directory = self.nodes.get(request.header.nodeid)?;
        Ok(Folder::remove(&directory, request.name()?.bytes(), flags)?)
    }

    /// Renames a file or directory, or exchanges two names.
    pub(super) fn rename(&mut self, opcode: Opcode, request: &mut Request<'_>) -> RequestResult<()> {
        let (target, flags) = if opcode == Opcode::Rename2 {
            let Rename2In { newdir, flags, .. } = request.read()?;
            (newdir, flags)
        } else {
            let RenameIn { newdir } = request.read()?;
            (newdir, 0)
        };
        let (from, to) = (self.nodes.get(request.header.nodeid)?, self.nodes.get(target)?);
        let [old, new] = request.two_names()?;
        Ok(Folder::rename((&from, old.bytes()), (&to, new.bytes()), flags)?)
    }

    /// Finds a name, and adds a reference to its node.
    pub(super) fn find(&mut self, directory: &OwnedFd, name: &[u8]) -> Result<EntryOut, Errno> {
        let inode = Folder::lookup(directory, name)?;
        let status = fstat(&inode)?;
        let node = self.nodes.refer(inode, &status)?;
        Ok(self.entry(node, Some(&status)))
    }

    /// Returns an entry. Its node is 0 if the name does not exist.
    fn entry(&self, node: u64, status: Option<&Stat>) -> EntryOut {
        let validity = self.policy.cache.validity();
        EntryOut {
            nodeid: node,
            // Node numbers are never reused, so no generation is needed.
            generation: 0,
            entry_valid: validity.as_secs(),
            attr_valid: validity.as_secs(),
            entry_valid_nsec: validity.subsec_nanos(),
            attr_valid_nsec: validity.subsec_nanos(),
            attr: status.map(attr).unwrap_or_default(),
        }
    }

    /// Returns an error if the table of nodes is full. Called before a file is created, because the guest
    /// could not refer to the file afterwards.
    fn require_room(&self) -> Result<(), Errno> {
        if self.nodes.is_full() { Err(Errno::NFILE) } else { Ok(()) }
    }

    /// Returns the permission bits for a new file or directory. The host's umask applies, too.
    fn masked(&self, mode: u32, umask: u32) -> u32 {
        if self.session.applies_umask { mode & !umask } else { mode }
    }
}
