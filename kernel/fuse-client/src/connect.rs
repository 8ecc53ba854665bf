//! The handshake (`Init`).

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_fuse::flags::InitFlags;
use hermit_fuse::reply::InitOut;
use hermit_fuse::request::InitIn;
use hermit_fuse::{MAJOR_VERSION, MINOR_VERSION, Opcode, Request, Tag};
use hermit_interface::Errno;

use crate::client::{FuseClient, Sizes};
use crate::handle_cache::HandleCache;
use crate::listing::Listing;
use crate::message::Head;
use crate::reply::{Failure, HEADER, check};
use crate::transport::Transport;

/// Minimum size in bytes that a server must accept in a write (Linux, `process_init_reply`).
const MIN_WRITE: usize = 4096;

/// Size of a page in bytes, the unit of `max_pages`.
const PAGE: usize = 4096;

/// Maximum number of pages in a request if the server does not specify one.
const DEFAULT_PAGES: u16 = 32;

/// Minimum minor version. Before 7.23, replies are shorter.
const MIN_MINOR: u32 = 23;

/// Identifier of the first request.
const FIRST: u64 = 1;

/// Reason why there is no connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The server or the transport reports an error.
    #[error("the server refuses the connection: {0}")]
    Refused(#[from] Errno),
    /// The reply is invalid.
    #[error("the server's reply is invalid")]
    Invalid,
    /// The server has another version of the protocol.
    #[error("the server has FUSE {0}.{1} instead of {MAJOR_VERSION}.{MIN_MINOR} or later")]
    Version(u32, u32),
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(errno) => Self::Refused(errno),
            Failure::Invalid => Self::Invalid,
        }
    }
}

impl<T: Transport> FuseClient<T> {
    /// Connects to the server at the other end of a transport. If that fails, stops the server. But after a
    /// failure for lack of memory, the server is not stopped, and the caller may try again.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(transport: T) -> Result<Self, ConnectError> {
        let reply = initialize(&transport).await;
        match reply.and_then(|reply| Ok((sizes(&transport, &reply)?, Listing::new(&reply)))) {
            Ok((sizes, listing)) => {
                let next_unique = AtomicU64::new(FIRST + 1);
                let (handles, has_no_flush) = (HandleCache::new(), AtomicBool::new(false));
                Ok(Self { transport, sizes, next_unique, listing, handles, has_no_flush })
            }
            Err(error) => {
                if error != ConnectError::Refused(Errno::ENOMEM) {
                    transport.stop();
                }
                Err(error)
            }
        }
    }
}

async fn initialize<T: Transport>(transport: &T) -> Result<InitOut, ConnectError> {
    let flags = InitFlags::ASYNC_READ
        | InitFlags::BIG_WRITES
        | InitFlags::DO_READDIRPLUS
        | InitFlags::READDIRPLUS_AUTO
        | InitFlags::MAX_PAGES
        | InitFlags::PARALLEL_DIROPS;
    let body = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION, max_readahead: 0, flags: flags.bits() };
    let mut head = Head::new(Opcode::Init, 0, &body);
    let request = Request {
        head: head.finish(FIRST, 0),
        split: [0; 2],
        data: &[],
        reply_head: HEADER + size_of::<InitOut>(),
        reply_data: 0,
        tag: Tag { unique: FIRST, ..Tag::default() },
    };
    let number = poll_fn(|context| transport.submit(context, &request)).await?;
    let reply = poll_fn(|context| transport.poll(context, number)).await?;
    let result = check(&reply).and_then(|payload| payload.all::<InitOut>());
    transport.release(reply);
    Ok(result?)
}

/// Returns the sizes of requests that both sides support.
fn sizes<T: Transport>(transport: &T, reply: &InitOut) -> Result<Sizes, ConnectError> {
    if reply.major != MAJOR_VERSION || reply.minor < MIN_MINOR {
        return Err(ConnectError::Version(reply.major, reply.minor));
    }
    let has_pages = InitFlags::from_bits_retain(reply.flags).contains(InitFlags::MAX_PAGES);
    let pages = if has_pages { reply.max_pages.max(1) } else { DEFAULT_PAGES };
    let max_data = transport.max_data().min(usize::from(pages) * PAGE);
    let max_write = usize::try_from(reply.max_write).unwrap_or(usize::MAX).max(MIN_WRITE);
    Ok(Sizes { read: max_data, write: max_data.min(max_write) })
}
