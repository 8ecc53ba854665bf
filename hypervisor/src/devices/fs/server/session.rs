//! Beginning of a session, and references to nodes.

use hermit_fuse::flags::InitFlags;
use hermit_fuse::reply::InitOut;
use hermit_fuse::request::{BatchForgetIn, ForgetIn, ForgetOne, InitIn};
use hermit_fuse::{MAJOR_VERSION, MINOR_VERSION};
use hermit_options::mount::CachePolicy;
use rustix::io::Errno;

use super::super::config::MAX_DATA;
use super::{Reply, Request, RequestResult, Server, Session};

/// Features that the server accepts if the guest offers them.
const SUPPORTED: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::DONT_MASK)
    .union(InitFlags::AUTO_INVAL_DATA)
    .union(InitFlags::DO_READDIRPLUS)
    .union(InitFlags::READDIRPLUS_AUTO)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES);

impl Server {
    /// Begins a session. A previous session ends.
    pub(super) fn init(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let init: InitIn = request.read()?;
        self.reset();
        if init.major < MAJOR_VERSION || (init.major == MAJOR_VERSION && init.minor < MINOR_VERSION) {
            return Err(Errno::PROTO.into());
        }
        let mut out = InitOut { major: MAJOR_VERSION, minor: MINOR_VERSION, ..InitOut::default() };
        if init.major > MAJOR_VERSION {
            // The guest supports a newer version, and repeats the request with the version in this reply.
            return reply.write(&out);
        }
        let mut flags = InitFlags::from_bits_truncate(init.flags) & SUPPORTED;
        if self.policy.cache == CachePolicy::Always {
            // With this policy the host changes no files, so the guest need not invalidate its cache.
            flags.remove(InitFlags::AUTO_INVAL_DATA);
        }
        self.session = Session { has_begun: true, applies_umask: flags.contains(InitFlags::DONT_MASK) };
        out.flags = flags.bits();
        out.max_readahead = init.max_readahead;
        out.max_write = u32::try_from(MAX_DATA).unwrap_or_default();
        out.max_pages = u16::try_from(MAX_DATA / 4096).unwrap_or_default();
        out.time_gran = 1;
        reply.write(&out)
    }

    /// Drops references to a node.
    pub(super) fn forget(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let ForgetIn { nlookup } = request.read()?;
        self.nodes.forget(request.header.nodeid, nlookup);
        Ok(())
    }

    /// Drops references to several nodes.
    pub(super) fn batch_forget(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let BatchForgetIn { count, .. } = request.read()?;
        // `count` is untrusted, but the limited length of the request bounds the loop.
        for _ in 0..count {
            let ForgetOne { nodeid, nlookup } = request.read()?;
            self.nodes.forget(nodeid, nlookup);
        }
        Ok(())
    }
}
