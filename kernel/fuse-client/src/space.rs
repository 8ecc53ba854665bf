//! Calls that find the file system, or the server's tables, full though the program has just made room.
//!
//! A removed file has its space until the server has handled the last messages that concern it, `Release` and
//! `Forget`. The program does not wait for those, and they overtake no request: they may even have a queue of
//! their own. So a call that the server refuses with `ENOSPC`, or with `EDQUOT` as the user's quota is full,
//! is made once more when the server has handled the messages that were sent before. So is one that it
//! refuses with `ENFILE` or `EMFILE`: a file that was closed has its descriptors as long.

use core::num::NonZeroU64;
use core::task::{Poll, ready};

use hermit_fs::{Call, Reply};
use hermit_interface::Errno;

use crate::client::FuseClient;
use crate::transport::Transport;

/// Bit of a call's ticket: the call waits until the server has handled messages, whose number is the rest of
/// the ticket.
const WAITS: u64 = 1 << 62;

/// Bit of a call's ticket: the call is made for the second time, and the rest is the ticket of its requests.
const AGAIN: u64 = 1 << 61;

fn ticket(call: &Call<'_, '_>) -> u64 {
    call.ticket.map_or(0, NonZeroU64::get)
}

impl<T: Transport> FuseClient<T> {
    /// Makes a call that takes space or descriptors: a second time if there are none, when there may be more.
    pub(crate) fn with_space<V>(
        &self,
        call: &mut Call<'_, '_>,
        mut request: impl FnMut(&mut Call<'_, '_>) -> Reply<V>,
    ) -> Reply<V> {
        loop {
            let mut before = ticket(call);
            if before & WAITS != 0 {
                ready!(self.transport.poll_handled(call.context, before & !WAITS));
                before = AGAIN;
            }
            let again = before & AGAIN;
            *call.ticket = NonZeroU64::new(before & !AGAIN);
            match request(call) {
                Poll::Ready(Err(Errno::ENOSPC | Errno::EDQUOT | Errno::ENFILE | Errno::EMFILE))
                    if again == 0 =>
                {
                    *call.ticket = NonZeroU64::new(WAITS | self.transport.sent());
                }
                Poll::Pending => {
                    *call.ticket = NonZeroU64::new(ticket(call) | again);
                    return Poll::Pending;
                }
                reply => return reply,
            }
        }
    }
}
