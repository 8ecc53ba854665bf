//! The server: executes requests of FUSE.
//!
//! | module | requests |
//! | --- | --- |
//! | `session` | beginning and end, references to nodes |
//! | `nodes` | (the table of inodes that the guest refers to) |
//! | `attributes` | attributes, space |
//! | `names` | making, finding, renaming and removing names |
//! | `files` | open files |
//! | `directories` | entries of directories |

mod attributes;
mod directories;
mod files;
mod names;
mod nodes;
mod session;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hermit_fuse::Opcode;
use hermit_fuse::reply::{AttrOut, EntryOut, InitOut, LseekOut, OpenOut, StatfsOut, WriteOut};
use hermit_options::mount::CachePolicy;
use rustix::io::Errno;

use self::nodes::Nodes;
use super::folder::Folder;
use super::message::{Reply, Request, RequestError, RequestResult};
use super::slots::Slots;

/// What the guest may do, and for how long it may rely on what it knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// The guest cannot change anything.
    pub(super) is_read_only: bool,
    /// Validity of names and attributes.
    pub(super) cache: CachePolicy,
}

/// Maximum numbers of what the guest holds, each with a descriptor of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    nodes: usize,
    handles: usize,
}

impl Budget {
    /// Divides `descriptors`: a quarter for open files, the rest for inodes.
    pub(super) fn new(descriptors: usize) -> Self {
        Self { nodes: descriptors - descriptors / 4, handles: descriptors / 4 }
    }
}

/// What a handle of the guest refers to.
#[derive(Debug)]
enum Handle {
    File(OwnedFd),
    Directory(Arc<OwnedFd>),
}

/// State of a mount.
#[derive(Debug)]
pub(super) struct Server {
    folder: Folder,
    policy: Policy,
    budget: Budget,
    nodes: Nodes,
    handles: Slots<Handle>,
    session: Session,
}

/// What was negotiated.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// `Init` was received.
    has_begun: bool,
    /// The guest leaves its umask to the server.
    applies_umask: bool,
}

impl Server {
    pub(super) fn new(folder: Folder, policy: Policy, budget: Budget) -> Self {
        let nodes = Nodes::new(Arc::clone(&folder.root), budget.nodes);
        let (handles, session) = (Slots::new(budget.handles), Session::default());
        Self { folder, policy, budget, nodes, handles, session }
    }

    /// Descriptor of the folder.
    pub(super) fn folder(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.folder.root)
    }

    /// Closes all that the guest holds, and ends the session.
    pub(super) fn reset(&mut self) {
        self.nodes = Nodes::new(self.folder(), self.budget.nodes);
        self.handles = Slots::new(self.budget.handles);
        self.session = Session::default();
    }

    /// Executes a request. `EIO` where the folder has gone.
    pub(super) fn handle(
        &mut self,
        opcode: Option<Opcode>,
        request: &mut Request<'_>,
        reply: &mut Reply<'_>,
    ) -> RequestResult<()> {
        request.limit()?;
        let opcode = opcode.ok_or(Errno::NOSYS)?;
        if !self.session.has_begun && opcode != Opcode::Init {
            return Err(Errno::IO.into());
        }
        // Before anything is done: a reference or a handle that the guest does not learn of would be lost.
        if reply.room() < reply_size(opcode) {
            return Err(Errno::INVAL.into());
        }
        if self.policy.is_read_only && is_change(opcode) {
            return Err(Errno::ROFS.into());
        }
        match self.execute(opcode, request, reply) {
            Err(RequestError::Errno(Errno::NOENT | Errno::STALE)) if self.folder.is_gone() => {
                Err(Errno::IO.into())
            }
            result => result,
        }
    }

    fn execute(
        &mut self,
        opcode: Opcode,
        request: &mut Request<'_>,
        reply: &mut Reply<'_>,
    ) -> RequestResult<()> {
        match opcode {
            Opcode::Init => self.init(request, reply),
            Opcode::Destroy => {
                self.reset();
                Ok(())
            }
            Opcode::Forget => self.forget(request),
            Opcode::BatchForget => self.batch_forget(request),
            Opcode::Interrupt => Ok(()),
            Opcode::Getattr => self.getattr(request, reply),
            Opcode::Setattr => self.setattr(request, reply),
            Opcode::Statfs => self.statfs(reply),
            Opcode::Access => self.access(request),
            Opcode::Readlink => self.readlink(request, reply),
            Opcode::Lookup => self.lookup(request, reply),
            Opcode::Symlink => self.symlink(request, reply),
            Opcode::Mkdir => self.mkdir(request, reply),
            Opcode::Link => self.link(request, reply),
            Opcode::Create => self.create(request, reply),
            Opcode::Unlink => self.unlink(request, rustix::fs::AtFlags::empty()),
            Opcode::Rmdir => self.unlink(request, rustix::fs::AtFlags::REMOVEDIR),
            Opcode::Rename | Opcode::Rename2 => self.rename(opcode, request),
            Opcode::Open => self.open(request, reply),
            Opcode::Read => self.read(request, reply),
            Opcode::Write => self.write(request, reply),
            Opcode::Flush => self.flush(request),
            Opcode::Release | Opcode::Releasedir => self.release(request),
            Opcode::Fsync | Opcode::Fsyncdir => self.fsync(request),
            Opcode::Lseek => self.lseek(request, reply),
            Opcode::Fallocate => self.fallocate(request),
            Opcode::Opendir => self.opendir(request, reply),
            Opcode::Readdir | Opcode::Readdirplus => self.readdir(opcode, request, reply),
            // Device nodes and FIFOs do not belong into a folder that host and guest share.
            Opcode::Mknod => Err(Errno::PERM.into()),
            // Locks are the guest's own, and so is everything else.
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

/// Whether requests of this kind change something on the host, whatever they say. Others are refused where
/// that shows.
fn is_change(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Setattr
            | Opcode::Symlink
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Link
            | Opcode::Write
            | Opcode::Fallocate
    )
}

/// Size in bytes of what follows the header of the reply, where it is constant; 0 otherwise.
fn reply_size(opcode: Opcode) -> usize {
    match opcode {
        Opcode::Init => size_of::<InitOut>(),
        Opcode::Getattr | Opcode::Setattr => size_of::<AttrOut>(),
        Opcode::Lookup | Opcode::Symlink | Opcode::Mkdir | Opcode::Link => size_of::<EntryOut>(),
        Opcode::Create => size_of::<EntryOut>() + size_of::<OpenOut>(),
        Opcode::Open | Opcode::Opendir => size_of::<OpenOut>(),
        Opcode::Write => size_of::<WriteOut>(),
        Opcode::Statfs => size_of::<StatfsOut>(),
        Opcode::Lseek => size_of::<LseekOut>(),
        _ => 0,
    }
}
