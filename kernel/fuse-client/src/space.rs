//! Retries of calls that find the file system or a table of the server full, though the program has just made
//! room.
//!
//! A removed file has its space until the server has handled the last messages about it, `Release` and
//! `Forget`. The program does not wait for these. They do not overtake requests; later requests may overtake
//! them, if they have a queue of their own. So if the server refuses a call with `ENOSPC`, or with `EDQUOT`
//! because a quota is full, the client waits until the server has handled all messages that were sent so far,
//! and makes the call once more. It does the same for `ENFILE` and `EMFILE`: a closed file uses its
//! descriptor just as long.

use core::num::NonZeroU64;
use core::task::{Poll, ready};

use hermit_fs::{Call, Reply};
use hermit_interface::Errno;

use crate::client::FuseClient;
use crate::transport::Transport;

/// Bit of a call's ticket: the call waits until the server has handled a number of messages, which is the
/// rest of the ticket.
const WAITS: u64 = 1 << 62;

/// Bit of a call's ticket: the call is made for the second time. The rest is the ticket of its requests.
const AGAIN: u64 = 1 << 61;

fn ticket(call: &Call<'_, '_>) -> u64 {
    call.ticket.map_or(0, NonZeroU64::get)
}

impl<T: Transport> FuseClient<T> {
    /// Makes a call that takes space or descriptors. If there are none, makes it once more when there may be
    /// some.
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
