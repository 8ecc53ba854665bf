//! The FUSE server of a mount: executes requests, one at a time.
//!
//! A request refers to inodes and open files by numbers that the server has handed out. The server maps the
//! numbers to descriptors of the host, with two tables. A node is an inode that the guest has looked up: an
//! `O_PATH` descriptor, and the number of the guest's references. A handle is an open file or directory. Both
//! tables are bounded, because each entry takes a descriptor. A name is resolved below the descriptor of its
//! directory, so the guest never passes a path to the host.
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

/// Access of the guest to the folder, and validity of its caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// True if the guest cannot change anything.
    pub(super) is_read_only: bool,
    /// Validity of names and attributes.
    pub(super) cache: CachePolicy,
}

/// Maximum numbers of nodes and handles. Each takes a descriptor of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    nodes: usize,
    handles: usize,
}

impl Budget {
    /// Divides `descriptors` between both: a quarter for handles, the rest for nodes.
    pub(super) fn new(descriptors: usize) -> Self {
        Self { nodes: descriptors - descriptors / 4, handles: descriptors / 4 }
    }
}

/// Open file or directory of the guest.
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

/// Result of `FUSE_INIT`.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// True if `Init` was received.
    has_begun: bool,
    /// True if the server applies the guest's umask to new files.
    applies_umask: bool,
}

impl Server {
    pub(super) fn new(folder: Folder, policy: Policy, budget: Budget) -> Self {
        let nodes = Nodes::new(Arc::clone(&folder.root), budget.nodes);
        let (handles, session) = (Slots::new(budget.handles), Session::default());
        Self { folder, policy, budget, nodes, handles, session }
    }

    /// Returns the descriptor of the folder.
    pub(super) fn folder(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.folder.root)
    }

    /// Closes all nodes and handles of the guest, and ends the session.
    pub(super) fn reset(&mut self) {
        self.nodes = Nodes::new(self.folder(), self.budget.nodes);
        self.handles = Slots::new(self.budget.handles);
        self.session = Session::default();
    }

    /// Executes a request. If the folder itself has been removed, errors about missing names become `EIO`.
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
        // Checked before the request has effects. If the reply did not fit, the guest would not learn of a
        // new reference or handle, and could never release it.
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
            // Device nodes and FIFOs do not belong in a folder that host and guest share.
            Opcode::Mknod => Err(Errno::PERM.into()),
            // For example locks, which the guest's kernel implements itself. It takes `ENOSYS` as "not
            // supported", and does not ask again.
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

/// Returns true if requests of this kind always change something on the host. Other requests, such as `Open`
/// and `Create`, change something only with certain flags, which their functions check.
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

/// Returns the size in bytes of the reply without its header, if this size is constant; 0 otherwise.
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
