//! Socket options.

use core::mem::offset_of;
use core::net::Ipv4Addr;

use hermit_abi::{
    IPPROTO_IPV6, IPPROTO_TCP, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SOCK_DGRAM, SOCK_STREAM,
    SOL_SOCKET, ip_mreq, ipv6_mreq, linger, timeval,
};
use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption, V4, V6, ValueKind};

use super::addresses::field;
use super::user::{UserResult, UserSlice};
use crate::net::socket::{Direction, Kind, Socket};

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const MICROSECONDS_PER_SECOND: i32 = 1_000_000;

/// An option, by the side that implements it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// An option of the stack, with the type of its value.
    Stack(OptionName, ValueKind),
    /// A `timeval`: limit on waiting in a direction.
    TimeLimit(Direction),
    /// A `linger`: limit on waiting for delivery when the socket is closed.
    Linger,
    /// An `int` that cannot be set: the socket's type.
    Type,
}

/// Whether a socket has the options of a level. If not, Linux's errors differ between `getsockopt` and `setsockopt`.
fn has_level(socket: &Socket, level: i32) -> bool {
    match level {
        IPPROTO_TCP => socket.kind() == Kind::Stream,
        IPPROTO_IPV6 => socket.family() == V6,
        _ => true,
    }
}

fn known(level: i32, name: i32) -> Result<Known, Errno> {
    Ok(match (level, name) {
        (SOL_SOCKET, SO_LINGER) => Known::Linger,
        (SOL_SOCKET, SO_TYPE) => Known::Type,
        (SOL_SOCKET, SO_RCVTIMEO) => Known::TimeLimit(Direction::Receive),
        (SOL_SOCKET, SO_SNDTIMEO) => Known::TimeLimit(Direction::Send),
        _ => OptionName::find(level, name)
            .map(|(name, kind)| Known::Stack(name, kind))
            .ok_or(Errno::ENOPROTOOPT)?,
    })
}

/// The bytes of a value; `EINVAL` if there are fewer than `size`.
fn value<'a>(argument: &UserSlice<'a, u8>, size: usize) -> Result<&'a [u8], Errno> {
    if argument.len() < size { Err(Errno::EINVAL) } else { argument.get() }
}

/// The `int` at an offset of a value.
fn int(bytes: &[u8], offset: usize) -> Result<i32, Errno> {
    field(bytes, offset).map(i32::from_ne_bytes).ok_or(Errno::EINVAL)
}

/// Sets an option.
///
/// # Errors
///
/// `ENOPROTOOPT` for an unknown option, `EINVAL` for an invalid value, `EDOM`, `EFAULT`, or the error of the stack.
pub(super) fn set(
    socket: &Socket,
    (level, name): (i32, i32),
    argument: &UserSlice<'_, u8>,
) -> Result<(), Errno> {
    let known = known(level, name)?;
    if !has_level(socket, level) {
        return Err(Errno::ENOPROTOOPT);
    }
    let option = match known {
        Known::Stack(name, ValueKind::Int) => {
            SocketOption::new(name, int(value(argument, size_of::<i32>())?, 0)?.cast_unsigned())
        }
        Known::Stack(name, ValueKind::Bool) => {
            SocketOption::new(name, int(value(argument, size_of::<i32>())?, 0)? != 0)
        }
        Known::Stack(name, ValueKind::GroupV4) => group_v4(name, value(argument, size_of::<ip_mreq>())?)?,
        Known::Stack(name, ValueKind::GroupV6) => group_v6(name, value(argument, size_of::<ipv6_mreq>())?)?,
        Known::TimeLimit(direction) => {
            let bytes = value(argument, size_of::<timeval>())?;
            let seconds = field(bytes, offset_of!(timeval, tv_sec)).map(i64::from_ne_bytes);
            let limit = nanoseconds(&timeval {
                tv_sec: seconds.ok_or(Errno::EINVAL)?,
                tv_usec: int(bytes, offset_of!(timeval, tv_usec))?,
            })?;
            socket.set_time_limit(direction, limit);
            return Ok(());
        }
        Known::Linger => {
            let bytes = value(argument, size_of::<linger>())?;
            let is_on = int(bytes, offset_of!(linger, l_onoff))? != 0;
            let seconds = int(bytes, offset_of!(linger, l_linger))?;
            socket.set_linger(is_on.then_some(seconds.max(0)));
            return Ok(());
        }
        Known::Type => return Err(Errno::ENOPROTOOPT),
    };
    socket.set_option(&option)
}

/// An option with an `ip_mreq`.
fn group_v4(name: OptionName, bytes: &[u8]) -> Result<SocketOption, Errno> {
    let address = |offset| field::<4>(bytes, offset).map(Ipv4Addr::from).ok_or(Errno::EINVAL);
    let group = address(offset_of!(ip_mreq, imr_multiaddr))?;
    Ok(SocketOption::group_v4(name, group, address(offset_of!(ip_mreq, imr_interface))?))
}

/// An option with an `ipv6_mreq`.
fn group_v6(name: OptionName, bytes: &[u8]) -> Result<SocketOption, Errno> {
    let group: [u8; 16] = field(bytes, offset_of!(ipv6_mreq, ipv6mr_multiaddr)).ok_or(Errno::EINVAL)?;
    let index = int(bytes, offset_of!(ipv6_mreq, ipv6mr_interface))?.cast_unsigned();
    Ok(SocketOption::group_v6(name, group.into(), index))
}

/// A limit on waiting in nanoseconds; `EDOM` if `tv_usec` is not below a second.
fn nanoseconds(time: &timeval) -> Result<u64, Errno> {
    let microseconds = u64::try_from(time.tv_usec).map_err(|_| Errno::EDOM)?;
    if time.tv_usec >= MICROSECONDS_PER_SECOND {
        return Err(Errno::EDOM);
    }
    // As on Linux, a negative limit expires at once. A limit of 0 would be none.
    let Ok(seconds) = u64::try_from(time.tv_sec) else { return Ok(1) };
    let whole = seconds.saturating_mul(NANOSECONDS_PER_SECOND);
    Ok(whole.saturating_add(microseconds * NANOSECONDS_PER_MICROSECOND))
}

/// The `timeval` of a limit in nanoseconds.
fn time(nanoseconds: u64) -> timeval {
    let microseconds = nanoseconds % NANOSECONDS_PER_SECOND / NANOSECONDS_PER_MICROSECOND;
    timeval {
        tv_sec: i64::try_from(nanoseconds / NANOSECONDS_PER_SECOND).unwrap_or(i64::MAX),
        tv_usec: i32::try_from(microseconds).unwrap_or(0),
    }
}

/// Stores the value of an option, and its size.
///
/// # Errors
///
/// `ENOPROTOOPT` for an unknown option, `EINVAL` without room for the value, `EFAULT`.
pub(super) fn get(socket: &Socket, (level, name): (i32, i32), out: UserResult<'_>) -> Result<(), Errno> {
    let known = known(level, name)?;
    if !has_level(socket, level) {
        let is_v4 = socket.family() == V4;
        return Err(if is_v4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT });
    }
    match known {
        Known::Stack(name, _) => out.write(socket.option(name)?.cast_signed()),
        Known::Type => out.write(match socket.kind() {
            Kind::Stream => SOCK_STREAM,
            Kind::Datagram => SOCK_DGRAM,
        }),
        Known::TimeLimit(direction) => out.write(time(socket.time_limit(direction))),
        Known::Linger => {
            let seconds = socket.linger();
            out.write(linger { l_onoff: seconds.is_some().into(), l_linger: seconds.unwrap_or(0) })
        }
    }
}
