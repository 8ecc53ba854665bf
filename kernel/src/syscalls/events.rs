//! Waiting for descriptors.

use hermit_abi::{POLLIN, POLLNVAL, POLLOUT, POLLRDNORM, POLLWRNORM, nfds_t, pollfd};
use hermit_hal::clock;

use super::{export_plain, unsupported, user};
use crate::{descriptors, thread, wait};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Fills in what each descriptor is ready for and returns how many are ready for something.
fn ready(descriptors: &mut [pollfd]) -> i32 {
    let mut count = 0;
    for entry in descriptors {
        entry.revents = if entry.fd < 0 { 0 } else { events(entry) };
        count += i32::from(entry.revents != 0);
    }
    count
}

fn events(entry: &pollfd) -> i16 {
    let Ok(object) = descriptors::get(entry.fd) else { return POLLNVAL };
    let readiness = object.readiness();
    let read = if readiness.read { POLLIN | POLLRDNORM } else { 0 };
    let write = if readiness.write { POLLOUT | POLLWRNORM } else { 0 };
    entry.events & (read | write)
}

export_plain! {
    /// Fails with exactly -1, for which `std` looks.
    fn sys_poll as poll(fds: *mut pollfd, nfds: nfds_t, timeout: i32) -> i32 {
        // SAFETY: the program passes as many entries, which nobody else uses during the call.
        let entries = match unsafe { user::array_mut(fds, nfds) } {
            Ok(entries) => entries,
            Err(error) => {
                thread::failed(error);
                return -1;
            }
        };
        let wait = u64::try_from(timeout).ok().map(|timeout| timeout * NANOSECONDS_PER_MILLISECOND);
        let mut count = ready(entries);
        if count == 0 && timeout != 0 {
            let deadline = wait.map(|wait| clock::monotonic().saturating_add(wait));
            wait::wait_until(deadline, || {
                count = ready(entries);
                count > 0
            });
        }
        count
    }
}

unsupported! {
    ENOSYS;
    sys_eventfd as eventfd(u64, i16) -> i32,
}
