//! `poll`, event counters (`eventfd`), pipes, and requests to end (`shutdownfd`).

use alloc::sync::Arc;
use core::task::{Context, Poll};

use hermit_abi::{
    EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, O_CLOEXEC, O_NONBLOCK, POLLERR, POLLHUP, POLLIN, POLLNVAL,
    POLLOUT, POLLRDHUP, POLLRDNORM, POLLWRNORM, nfds_t, pollfd,
};
use hermit_hal::clock;
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;
use hermit_io::{EventFd, Pipe, PipeReader, PipeWriter};

use super::{export, export_plain};
use crate::net::waiting;
use crate::threads::errno;
use crate::threads::wait::block_until_any;
use crate::{descriptors, fallible, shutdown};

pub(super) const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Fills in the events of each descriptor. Returns the number of descriptors that have events, or `Pending`
/// if no descriptor has any.
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
    let bits = |is_set: bool, events: i16| if is_set { events } else { 0 };
    let requested = bits(readiness.read, POLLIN | POLLRDNORM)
        | bits(readiness.write, POLLOUT | POLLWRNORM)
        | bits(readiness.read_hang_up, POLLRDHUP);
    // Hang-up and error are reported even if they are not requested.
    entry.events & requested | bits(readiness.hang_up, POLLHUP) | bits(readiness.error, POLLERR)
}

export_plain! {
    /// Returns -1 on failure, not `-errno`, since std compares the result with -1.
    fn sys_poll as poll(fds: *mut pollfd, nfds: nfds_t, timeout: i32) -> i32
    where entries: UserSliceMut::new(fds, nfds) {
        let entries = match entries.get() {
            Ok(entries) => entries,
            Err(error) => {
                errno::set(error);
                return -1;
            }
        };
        let timeout_ns = u64::try_from(timeout).ok().map(|timeout| timeout * NANOSECONDS_PER_MILLISECOND);
        let deadline = timeout_ns.map(|timeout_ns| clock::monotonic().saturating_add(timeout_ns));
        let poll = |context: &mut Context<'_>| poll_all(context, entries);
        // A call with a timeout of 0 does not wait, so its thread need not become the poll leader.
        let polled =
            if timeout == 0 { block_until_any(deadline, poll) } else { waiting::block_until_any(deadline, poll) };
        polled.unwrap_or(0)
    }
}

/// Opens a pipe. Returns the descriptor of its read end and the descriptor of its write end.
fn open_pipe(nonblocking: bool) -> Result<[i32; 2], Errno> {
    let (reader, writer) = (descriptors::reserve()?, descriptors::reserve()?);
    let pipe = Pipe::<RawSpinLock>::new()?;
    let pipe = fallible::arc(pipe).ok_or(Errno::ENOMEM)?;
    let read_end = fallible::arc(PipeReader::new(Arc::clone(&pipe), nonblocking)).ok_or(Errno::ENOMEM)?;
    let write_end = fallible::arc(PipeWriter::new(pipe, nonblocking)).ok_or(Errno::ENOMEM)?;
    Ok([reader.open(read_end), writer.open(write_end)])
}

export! {
    fn sys_eventfd as eventfd(initval: u64, flags: i16) -> i32 {
        if flags & !(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC) != 0 || initval == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let (semaphore, nonblocking) = (flags & EFD_SEMAPHORE != 0, flags & EFD_NONBLOCK != 0);
        let object = fallible::arc(EventFd::<RawSpinLock>::new(initval, semaphore, nonblocking));
        descriptors::open(object.ok_or(Errno::ENOMEM)?)
    }
    fn sys_pipe as pipe(fds: *mut [i32; 2], flags: i32) -> i32
    where out: UserOut::new(fds) {
        if flags & !(O_NONBLOCK | O_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let ends = open_pipe(flags & O_NONBLOCK != 0)?;
        if let Err(error) = out.write(ends) {
            ends.map(descriptors::close_one).into_iter().collect::<Result<(), Errno>>()?;
            return Err(error);
        }
        Ok(0)
    }

    fn sys_shutdownfd as shutdownfd(flags: i16) -> i32 {
        if flags & !(EFD_NONBLOCK | EFD_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        shutdown::open(flags & EFD_NONBLOCK != 0)
    }
}
