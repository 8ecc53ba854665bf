//! The way to a server.

use core::fmt::Debug;
use core::num::NonZeroU64;
use core::task::{Context, Poll};

use hermit_fuse::{Request, Tag};
use hermit_interface::Errno;
use lock_api::RawMutex;

/// Carries messages between the client and a server. It copies them: the client's caller may give up its
/// buffers at any time.
pub trait Transport: Debug + Send + Sync {
    /// A reply in the transport's memory.
    type Reply: ServedReply;

    /// A lock that is held for a few instructions.
    type RawLock: RawMutex + Send + Sync;

    /// Time in nanoseconds since any moment.
    fn now(&self) -> u64;

    /// Maximum size in bytes of the data of a request or of a reply.
    fn max_data(&self) -> usize;

    /// Maximum size in bytes of data that needs no memory besides what the transport has always.
    fn min_data(&self) -> usize;

    /// Submits a request and returns its number; the waker is woken when the reply has arrived. Pending if
    /// there is no room for a further request: then the waker is woken when there is.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the server is gone or was [stopped](Self::stop).
    fn submit(&self, context: &Context<'_>, request: &Request<'_>) -> Poll<Result<NonZeroU64, Errno>>;

    /// Returns the reply to a request. It is returned once.
    ///
    /// # Errors
    ///
    /// `EIO` if the server is gone or was [stopped](Self::stop).
    fn poll(&self, context: &Context<'_>, request: NonZeroU64) -> Poll<Result<Self::Reply, Errno>>;

    /// Takes the memory of a reply back.
    fn release(&self, reply: Self::Reply);

    /// Sends a message of at most 64 bytes, with a reply of at most 16 bytes that is dropped or, for urgent
    /// ones, without any. It does not wait.
    fn send(&self, message: &[u8], has_reply: bool);

    /// Number of messages that were [sent](Self::send) up to now: below 2^61.
    fn sent(&self) -> u64;

    /// Waits until the server has handled as many of the [sent](Self::send) messages as `count` says, or is
    /// gone. Which ones is not said: messages may overtake others. Ready at once if it has; else the waker is
    /// woken when it may have.
    fn poll_handled(&self, context: &Context<'_>, count: u64) -> Poll<()>;

    /// Frees memory that is kept for later requests. It allocates nothing.
    fn reclaim(&self) {}

    /// Whether the server is gone or was [stopped](Self::stop): every request fails.
    fn is_stopped(&self) -> bool;

    /// Stops a server that has sent an invalid reply.
    fn stop(&self);
}

/// A reply in a transport's memory, which the server may be able to change until it is copied.
pub trait ServedReply {
    /// What was passed with the request.
    fn tag(&self) -> Tag;

    /// Size in bytes.
    fn size(&self) -> usize;

    /// Copies bytes from an offset on; returns their number.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> usize;
}
