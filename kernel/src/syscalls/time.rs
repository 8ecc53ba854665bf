//! Clocks and sleeping.

use hermit_abi::{CLOCK_MONOTONIC, CLOCK_REALTIME, clockid_t, timespec};
use hermit_clock::NANOSECONDS;
use hermit_hal::clock;
use hermit_interface::Errno;

use super::{export, export_plain};
use crate::threads::schedule;

const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;

/// Converts a duration or time to nanoseconds. Saturates if it is too large. Fails with `EINVAL` if it is
/// negative, or if `tv_nsec` is not below a second.
pub(super) fn nanoseconds(time: timespec) -> Result<u64, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::EINVAL)?;
    let rest = u64::try_from(time.tv_nsec).ok().filter(|&rest| rest < NANOSECONDS).ok_or(Errno::EINVAL)?;
    Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(rest))
}

/// Converts a time in nanoseconds to seconds and nanoseconds.
#[inline]
fn seconds(now: u64) -> timespec {
    let (seconds, rest) = (now / NANOSECONDS, now % NANOSECONDS);
    // Neither conversion can fail: the seconds and the rest are far below the maximum.
    timespec { tv_sec: seconds.cast_signed(), tv_nsec: i32::try_from(rest).unwrap_or_default() }
}

fn sleep(nanoseconds: u64) {
    schedule::sleep_until(clock::monotonic().saturating_add(nanoseconds));
}

export! {
    fn sys_clock_gettime as clock_gettime(clock: clockid_t, time: *mut timespec) -> i32
    where out: UserOut::new(time) {
        let now = match clock {
            CLOCK_MONOTONIC => clock::monotonic_inline(),
            CLOCK_REALTIME => clock::wall_clock(),
            _ => return Err(Errno::EINVAL),
        };
        out.write(seconds(now))?;
        Ok(0)
    }

    fn sys_nanosleep as nanosleep(duration: *const timespec) -> i32
    where duration: UserPtr::new(duration) {
        sleep(nanoseconds(duration.read()?)?);
        Ok(0)
    }
}

export_plain! {
    fn sys_monotonic_time as monotonic_time() -> timespec {
        seconds(clock::monotonic_inline())
    }

    fn sys_usleep as usleep(microseconds: u64) {
        sleep(microseconds.saturating_mul(NANOSECONDS_PER_MICROSECOND));
    }
}
