//! Settings that sockets of all families have.

use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use hermit_abi::{SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SOL_SOCKET, linger, timeval};
use hermit_interface::Errno;

use super::OptionId;
use crate::{Argument, ValueResult, field, set_field};

const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;

/// Timeouts of at least this number of seconds mean to wait forever. Linux has such a limit, too, whose value
/// depends on its configuration.
const MAX_TIMEOUT_SECONDS: u64 = u64::MAX / MICROSECONDS_PER_SECOND;

/// Stands for a negative timeout. It expires at once, and reads back as 0.
const AT_ONCE: u64 = u64::MAX;

/// Value while `SO_LINGER` is off: `close` returns at once, and sent data is still delivered.
const NO_LINGER: i32 = -1;

/// A direction in which calls block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Receiving and accepting.
    Receive,
    /// Sending and connecting.
    Send,
}

/// An option that sockets of all families have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommonOption {
    /// An `int` that cannot be set: the socket's type.
    Type,
    /// A `timeval`: timeout of calls in a direction.
    Timeout(Direction),
    /// A `linger`: limit on waiting for delivery when the socket is closed.
    Linger,
}

impl CommonOption {
    /// Returns the option with this level and number, or `None` if it is not common to all families.
    pub(super) const fn find(option: OptionId) -> Option<Self> {
        match option {
            (SOL_SOCKET, SO_TYPE) => Some(Self::Type),
            (SOL_SOCKET, SO_RCVTIMEO) => Some(Self::Timeout(Direction::Receive)),
            (SOL_SOCKET, SO_SNDTIMEO) => Some(Self::Timeout(Direction::Send)),
            (SOL_SOCKET, SO_LINGER) => Some(Self::Linger),
            _ => None,
        }
    }
}

/// Settings that sockets of all families have.
#[derive(Debug)]
pub struct CommonSettings {
    /// `SOCK_STREAM` or `SOCK_DGRAM`.
    socket_type: i32,
    nonblocking: AtomicBool,
    /// Timeout of receiving (`SO_RCVTIMEO`) in microseconds, 0 for none, or [`AT_ONCE`]; the next field is
    /// `SO_SNDTIMEO`.
    receive_timeout: AtomicU64,
    send_timeout: AtomicU64,
    /// Linger time in seconds, or [`NO_LINGER`].
    linger: AtomicI32,
}

impl CommonSettings {
    /// Settings of a new socket of a type, such as `SOCK_STREAM`.
    #[must_use]
    pub const fn new(socket_type: i32, nonblocking: bool) -> Self {
        Self {
            socket_type,
            nonblocking: AtomicBool::new(nonblocking),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
            linger: AtomicI32::new(NO_LINGER),
        }
    }

    /// Returns the settings of a socket that a listener with these settings has accepted. As on Linux, the
    /// new socket is blocking.
    #[must_use]
    pub fn inherited(&self) -> Self {
        Self {
            socket_type: self.socket_type,
            nonblocking: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(self.receive_timeout.load(Relaxed)),
            send_timeout: AtomicU64::new(self.send_timeout.load(Relaxed)),
            linger: AtomicI32::new(self.linger.load(Relaxed)),
        }
    }

    /// Returns true if calls fail with `EAGAIN` instead of blocking.
    #[inline]
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    /// Sets whether calls fail with `EAGAIN` instead of blocking.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Relaxed);
    }

    /// Returns the time in nanoseconds at which a call that begins at the time `now()` fails with `EAGAIN`.
    /// Returns `None` if there is no timeout, and then does not call `now`.
    #[inline]
    pub fn deadline(&self, direction: Direction, now: impl FnOnce() -> u64) -> Option<u64> {
        let timeout = self.timeout(direction).load(Relaxed);
        match timeout {
            0 => None,
            AT_ONCE => Some(now()),
            timeout => Some(now().saturating_add(timeout.saturating_mul(NANOSECONDS_PER_MICROSECOND))),
        }
    }

    #[inline]
    const fn timeout(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Receive => &self.receive_timeout,
            Direction::Send => &self.send_timeout,
        }
    }

    /// Returns the linger time in seconds, if `SO_LINGER` is on. `close` waits at most this time for the
    /// delivery of data. If the time is 0, `close` resets the connection.
    #[must_use]
    pub fn linger(&self) -> Option<i32> {
        Some(self.linger.load(Relaxed)).filter(|&seconds| seconds != NO_LINGER)
    }

    /// Sets an option.
    pub(super) fn set(&self, option: CommonOption, value: &Argument<'_>) -> Result<(), Errno> {
        match option {
            CommonOption::Type => return Err(Errno::ENOPROTOOPT),
            CommonOption::Timeout(direction) => {
                let timeout = timeout_from(value.structure(size_of::<timeval>())?)?;
                self.timeout(direction).store(timeout, Relaxed);
            }
            CommonOption::Linger => {
                let value = value.structure(size_of::<linger>())?;
                let is_on = int(value, offset_of!(linger, l_onoff))? != 0;
                let seconds = int(value, offset_of!(linger, l_linger))?;
                self.linger.store(if is_on { seconds.max(0) } else { NO_LINGER }, Relaxed);
            }
        }
        Ok(())
    }

    /// Writes the value of an option.
    pub(super) fn write(&self, option: CommonOption, value: &mut dyn ValueResult) -> Result<(), Errno> {
        match option {
            CommonOption::Type => value.write(&self.socket_type.to_ne_bytes()),
            CommonOption::Timeout(direction) => {
                value.write(&timeval_of(self.timeout(direction).load(Relaxed)))
            }
            CommonOption::Linger => {
                let linger = self.linger();
                let mut bytes = [0; size_of::<linger>()];
                let is_on = i32::from(linger.is_some());
                set_field(&mut bytes, offset_of!(linger, l_onoff), &is_on.to_ne_bytes());
                let seconds = linger.unwrap_or(0);
                set_field(&mut bytes, offset_of!(linger, l_linger), &seconds.to_ne_bytes());
                value.write(&bytes)
            }
        }
    }
}

/// Reads the `int` at an offset of a structure.
fn int(structure: &[u8], offset: usize) -> Result<i32, Errno> {
    field(structure, offset).map(i32::from_ne_bytes).ok_or(Errno::EINVAL)
}

/// Converts a `timeval` to a timeout in microseconds, or to [`AT_ONCE`] if it is negative. Fails with `EDOM`
/// if `tv_usec` is not below a second.
fn timeout_from(time: &[u8]) -> Result<u64, Errno> {
    let seconds = field(time, offset_of!(timeval, tv_sec)).map(i64::from_ne_bytes).ok_or(Errno::EINVAL)?;
    let microseconds = u64::try_from(int(time, offset_of!(timeval, tv_usec))?).unwrap_or(u64::MAX);
    if microseconds >= MICROSECONDS_PER_SECOND {
        return Err(Errno::EDOM);
    }
    // As on Linux, a negative timeout expires at once.
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(AT_ONCE) };
    let is_none = seconds >= MAX_TIMEOUT_SECONDS;
    Ok(if is_none { 0 } else { seconds * MICROSECONDS_PER_SECOND + microseconds })
}

/// Converts a timeout in microseconds to a `timeval`.
fn timeval_of(timeout: u64) -> [u8; size_of::<timeval>()] {
    let timeout = if timeout == AT_ONCE { 0 } else { timeout };
    let seconds = i64::try_from(timeout / MICROSECONDS_PER_SECOND).unwrap_or(i64::MAX);
    let microseconds = i32::try_from(timeout % MICROSECONDS_PER_SECOND).unwrap_or(0);
    let mut bytes = [0; size_of::<timeval>()];
    set_field(&mut bytes, offset_of!(timeval, tv_sec), &seconds.to_ne_bytes());
    set_field(&mut bytes, offset_of!(timeval, tv_usec), &microseconds.to_ne_bytes());
    bytes
}
