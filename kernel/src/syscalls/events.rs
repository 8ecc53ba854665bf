//! Waiting for descriptors, and the descriptors by which threads wake each other.

use core::task::{Context, Poll};

use hermit_abi::{
    EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP,
    POLLRDNORM, POLLWRNORM, nfds_t, pollfd,
};
use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_io::EventFd;

use super::{export, export_plain, user};
use crate::sync::WaitQueue;
use crate::threads::errno;
use crate::threads::wait::block_until;
use crate::{descriptors, fallible};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Fills in what each descriptor is ready for and returns how many are ready for something, if any is.
fn poll_all(context: &mut Context<'_>, descriptors: &mut [pollfd]) -> Poll<i32> {
    let mut count = 0;
    for entry in descriptors {
        entry.revents = if entry.fd < 0 { 0 } else { events(context, entry) };
        count += i32::from(entry.revents != 0);
    }
    if count > 0 { Poll::Ready(count) } else { Poll::Pending }
}

fn events(context: &mut Context<'_>, entry: &pollfd) -> i16 {
    let Ok(object) = descriptors::get(entry.fd) else { return POLLNVAL };
    let readiness = object.poll_ready(context);
    let bits = |is_so: bool, events: i16| if is_so { events } else { 0 };
    let asked = bits(readiness.read, POLLIN | POLLRDNORM)
        | bits(readiness.write, POLLOUT | POLLWRNORM)
        | bits(readiness.read_hang_up, POLLRDHUP);
    // These are told to whoever asks for anything.
    entry.events & asked | bits(readiness.hang_up, POLLHUP) | bits(readiness.error, POLLERR)
}

export_plain! {
    /// Fails with exactly -1, for which `std` looks.
    fn sys_poll as poll(fds: *mut pollfd, nfds: nfds_t, timeout: i32) -> i32 {
        // SAFETY: the program passes as many entries, which nobody else uses during the call.
        let entries = match unsafe { user::array_mut(fds, nfds) } {
            Ok(entries) => entries,
            Err(error) => {
                errno::set(error);
                return -1;
            }
        };
        let wait = u64::try_from(timeout).ok().map(|timeout| timeout * NANOSECONDS_PER_MILLISECOND);
        let deadline = wait.map(|wait| clock::monotonic().saturating_add(wait));
        block_until(deadline, |context| poll_all(context, entries)).unwrap_or(0)
    }
}

export! {
    fn sys_eventfd as eventfd(initval: u64, flags: i16) -> i32 {
        if flags & !(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC) != 0 || initval == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let (semaphore, nonblocking) = (flags & EFD_SEMAPHORE != 0, flags & EFD_NONBLOCK != 0);
        let object = fallible::arc(EventFd::new(initval, semaphore, nonblocking, WaitQueue::new()));
        descriptors::open(object.ok_or(Errno::ENOMEM)?)
    }
}
