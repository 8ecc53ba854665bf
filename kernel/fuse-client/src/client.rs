//! The client: submits requests and takes their replies.

use core::num::NonZeroU64;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::{Poll, ready};

use hermit_fs::{Call, Ino, Reply};
use hermit_fuse::request::{ForgetIn, ReleaseIn};
use hermit_fuse::{Opcode, ROOT_NODE, Request, Tag};
use hermit_interface::Errno;

use crate::handle::Handle;
use crate::handle_cache::HandleCache;
use crate::listing::Listing;
use crate::message::Head;
use crate::reply::{Failure, HEADER, Payload, check};
use crate::transport::{ServedReply as _, Transport};

/// Maximum sizes in bytes of the data of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Maximum size of the data in a reply to a read.
    pub(crate) read: usize,
    /// Maximum size of the data in a write.
    pub(crate) write: usize,
}

/// Bit of a call's ticket. If it is set, the rest of the ticket is the state of the call's next request,
/// which the transport has not yet had room for. Otherwise the ticket is the transport's number of the
/// request in flight; these numbers are far below this bit.
const CONTINUE: u64 = 1 << 63;

/// Progress of a call that may make several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first request must be submitted.
    First,
    /// A further request must be submitted, with this state.
    Further(u64),
    /// A request is in flight.
    InFlight,
}

impl Stage {
    pub(crate) fn of(call: &Call<'_, '_>) -> Self {
        match call.ticket.map(NonZeroU64::get) {
            None => Self::First,
            Some(ticket) if ticket & CONTINUE != 0 => Self::Further(ticket & !CONTINUE),
            Some(_) => Self::InFlight,
        }
    }

    /// Stores the state of the next request in the ticket. The state is below 2^63.
    pub(crate) fn go_on(call: &mut Call<'_, '_>, state: u64) {
        *call.ticket = NonZeroU64::new(CONTINUE | state);
    }
}

/// A file system whose files are those of a server.
#[derive(Debug)]
pub struct FuseClient<T: Transport> {
    pub(crate) transport: T,
    pub(crate) sizes: Sizes,
    pub(crate) next_unique: AtomicU64,
    pub(crate) listing: Listing,
    pub(crate) handles: HandleCache<T>,
    /// True if the server does not support `Flush`. Then it never reports errors when a file is closed.
    pub(crate) has_no_flush: AtomicBool,
}

/// Parts of a request other than its head, and the room for its reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent<'a> {
    /// Sizes in bytes of parts of the head that are passed in separate buffers.
    pub(crate) split: [usize; 2],
    /// Data after the head.
    pub(crate) data: &'a [u8],
    /// Maximum size in bytes of the structures in the reply.
    pub(crate) reply: usize,
    /// Maximum size in bytes of data in the reply.
    pub(crate) reply_data: usize,
    /// State of the call that is available again when the reply arrives.
    pub(crate) state: u64,
}

impl Extent<'_> {
    /// Describes a request without data, and a reply of `reply` bytes.
    pub(crate) fn reply(reply: usize) -> Self {
        Self { reply, ..Self::default() }
    }
}

impl<T: Transport> FuseClient<T> {
    /// Frees memory that is kept for later use, and releases the handles of closed files. Does not allocate
    /// memory.
    pub fn reclaim(&self) {
        self.transport.reclaim();
        self.release_kept();
    }

    pub(crate) fn unique(&self) -> u64 {
        self.next_unique.fetch_add(1, Relaxed)
    }

    /// Submits a request. Returns `Pending` unless the submission fails. If the transport has no room, the
    /// next poll submits the request.
    pub(crate) fn submit(
        &self,
        call: &mut Call<'_, '_>,
        mut head: Head,
        extent: Extent<'_>,
    ) -> Poll<Result<(), Errno>> {
        let tag = Tag { unique: self.unique(), state: extent.state };
        let request = Request {
            head: head.finish(tag.unique, extent.data.len()),
            split: extent.split,
            data: extent.data,
            reply_head: HEADER + extent.reply,
            reply_data: extent.reply_data,
            tag,
        };
        let submitted = ready!(self.transport.submit(call.context, &request));
        *call.ticket = submitted.ok();
        submitted?;
        Poll::Pending
    }

    /// Takes the reply to a request, and calls `parse` with the reply's payload and the request's tag.
    pub(crate) fn take<V>(
        &self,
        call: &mut Call<'_, '_>,
        parse: impl FnOnce(Result<Payload<'_, T::Reply>, Errno>, Tag) -> Result<V, Failure>,
    ) -> Reply<V> {
        let Some(number) = *call.ticket else { return Poll::Ready(Err(Errno::EIO)) };
        let reply = ready!(self.transport.poll(call.context, number));
        *call.ticket = None;
        let reply = reply?;
        let result = match check(&reply) {
            Ok(payload) => parse(Ok(payload), reply.tag()),
            Err(Failure::Errno(errno)) => parse(Err(errno), reply.tag()),
            Err(Failure::Invalid) => Err(Failure::Invalid),
        };
        self.transport.release(reply);
        Poll::Ready(result.map_err(|failure| match failure {
            Failure::Errno(errno) => errno,
            Failure::Invalid => {
                self.transport.stop();
                Errno::EIO
            }
        }))
    }

    /// Makes a request that consists of one message and one reply.
    pub(crate) fn request<V>(
        &self,
        call: &mut Call<'_, '_>,
        head: impl FnOnce() -> Head,
        extent: Extent<'_>,
        parse: impl FnOnce(&Payload<'_, T::Reply>) -> Result<V, Failure>,
    ) -> Reply<V> {
        if call.ticket.is_none() {
            ready!(self.submit(call, head(), extent))?;
        }
        self.take(call, |payload, _| parse(&payload?))
    }

    /// Sends a message and ignores its reply.
    fn send(&self, mut head: Head, has_reply: bool) {
        self.transport.send(head.finish(self.unique(), 0), has_reply);
    }

    /// Releases all handles that are kept for later opens.
    pub(crate) fn release_kept(&self) {
        while let Some((ino, handle)) = self.handles.take_oldest() {
            self.send_release(ino.0, Handle::decode(handle));
        }
    }

    /// Drops references to a node. Releases the handles of the node that are kept, since the server may give
    /// the number of the node to another file.
    pub(crate) fn send_forget(&self, node: u64, references: u64) {
        // The root has no counted references.
        if node != ROOT_NODE {
            while let Some((handle, _)) = self.handles.take(Ino(node), u64::MAX) {
                self.send_release(node, Handle::decode(handle));
            }
            self.send(Head::new(Opcode::Forget, node, &ForgetIn { nlookup: references }), false);
        }
    }

    /// Releases a handle.
    pub(crate) fn send_release(&self, node: u64, handle: Handle) {
        let opcode = if handle.is_directory { Opcode::Releasedir } else { Opcode::Release };
        let body = ReleaseIn { fh: handle.number, ..ReleaseIn::default() };
        self.send(Head::new(opcode, node, &body), true);
    }
}
