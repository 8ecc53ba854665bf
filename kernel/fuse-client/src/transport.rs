//! Interface to the transport of messages.

use core::fmt::Debug;
use core::num::NonZeroU64;
use core::task::{Context, Poll};

use hermit_fuse::{Request, Tag};
use hermit_interface::Errno;
use lock_api::RawMutex;

/// Carries messages between the client and a server. It copies the messages, because the client's caller may
/// drop its buffers at any time.
pub trait Transport: Debug + Send + Sync {
    /// A reply in the transport's memory.
    type Reply: ServedReply;

    /// A lock that is held only for a few instructions.
    type RawLock: RawMutex + Send + Sync;

    /// Time in nanoseconds since an arbitrary moment.
    fn now(&self) -> u64;

    /// Maximum size in bytes of the data of a request or of a reply.
    fn max_data(&self) -> usize;

    /// Maximum size in bytes of data for which the transport always has memory.
    fn min_data(&self) -> usize;

    /// Submits a request and returns its number. The waker is woken when the reply has arrived. If there is
    /// no room for another request, returns `Pending`. Then the waker is woken when there is room.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` if the server is gone or was [stopped](Self::stop).
    fn submit(&self, context: &Context<'_>, request: &Request<'_>) -> Poll<Result<NonZeroU64, Errno>>;

    /// Returns the reply to a request. Each reply is returned only once.
    ///
    /// # Errors
    ///
    /// `EIO` if the server is gone or was [stopped](Self::stop).
    fn poll(&self, context: &Context<'_>, request: NonZeroU64) -> Poll<Result<Self::Reply, Errno>>;

    /// Returns the memory of a reply to the transport.
    fn release(&self, reply: Self::Reply);

    /// Sends a message of at most 64 bytes, without waiting. If `has_reply`, the message has a reply of at
    /// most 16 bytes, which is dropped. Otherwise, the message is urgent.
    fn send(&self, message: &[u8], has_reply: bool);

    /// Returns the number of messages that were [sent](Self::send) so far. It is below 2^61.
    fn sent(&self) -> u64;

    /// Waits until the server has handled `count` of the [sent](Self::send) messages, or is gone. These need
    /// not be the messages that were sent first, since messages may overtake each other. If the server has
    /// not yet handled so many, returns `Pending`, and the waker is woken when the server may have.
    fn poll_handled(&self, context: &Context<'_>, count: u64) -> Poll<()>;

    /// Frees memory that is kept for later requests. Does not allocate memory.
    fn reclaim(&self) {}

    /// Returns true if the server is gone or was [stopped](Self::stop), so that every request fails.
    fn is_stopped(&self) -> bool;

    /// Stops a server that has sent an invalid reply.
    fn stop(&self);
}

/// A reply in a transport's memory. The server may be able to change the reply until it is copied.
pub trait ServedReply {
    /// The tag of the request.
    fn tag(&self) -> Tag;

    /// Size in bytes.
    fn size(&self) -> usize;

    /// Copies bytes from an offset on. Returns their number.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> usize;
}
