//! The way to a server.

use core::fmt::Debug;
use core::num::NonZeroU64;
use core::task::{Context, Poll};

use hermit_interface::Errno;

/// What the client gets back with the reply to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Identifier of the request, which the reply repeats.
    pub unique: u64,
    /// What the client wants to remember until the reply.
    pub state: u64,
}

/// A request in two parts, and the room for its reply.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Header, structure and names, at most 640 bytes.
    pub head: &'a [u8],
    /// Sizes in bytes of parts of the head that are best passed apart: some servers copy no data only then.
    pub split: [usize; 2],
    /// Data behind it, at most [`Transport::max_data`] bytes.
    pub data: &'a [u8],
    /// Maximum size in bytes of the reply's header and structure, at most 256.
    pub reply_head: usize,
    /// Maximum size in bytes of data in the reply, at most [`Transport::max_data`].
    pub reply_data: usize,
    /// Returned with the reply.
    pub tag: Tag,
}

/// Carries messages between the client and a server. It copies them: the client's caller may give up its buffers at any time.
pub trait Transport: Debug + Send + Sync {
    /// A reply in the transport's memory.
    type Reply: ServedReply;

    /// Maximum size in bytes of the data of a request or a reply.
    fn max_data(&self) -> usize;

    /// Maximum size in bytes of data that needs no memory besides what the transport has always.
    fn min_data(&self) -> usize;

    /// Submits a request and returns its number; the waker is woken when the reply has arrived. Pending if there is no room for
    /// a further request: then the waker is woken when there is.
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

    /// Sends a message of at most 64 bytes, with a reply of at most 16 bytes that is dropped or, for urgent ones, without any. It
    /// does not wait.
    fn send(&self, message: &[u8], has_reply: bool);

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
