//! Requests between their sender and the transport to a server, such as the driver of a virtio-fs device.

/// Maximum size in bytes of the head of a request: the header, two names of 255 bytes with a NUL each, and
/// the largest structure.
pub const MAX_HEAD: usize = 640;

/// Maximum size in bytes of the head of a reply.
pub const MAX_REPLY_HEAD: usize = 256;

/// Data that the sender of a request gets back with the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Identifier of the request, which the reply repeats.
    pub unique: u64,
    /// State of the sender.
    pub state: u64,
}

/// A request in two parts, and the room for its reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Header, structure and names, at most [`MAX_HEAD`] bytes.
    pub head: &'a [u8],
    /// Sizes in bytes of parts of the head that the transport passes in separate buffers: some servers copy
    /// data unless it does.
    pub split: [usize; 2],
    /// Data after the head.
    pub data: &'a [u8],
    /// Maximum size in bytes of the reply's header and structure, at most [`MAX_REPLY_HEAD`].
    pub reply_head: usize,
    /// Maximum size in bytes of data in the reply.
    pub reply_data: usize,
    /// Tag, which the reply returns.
    pub tag: Tag,
}
