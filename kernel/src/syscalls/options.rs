//! Options of sockets.

use core::ffi::c_void;
use core::net::IpAddr;

use hermit_abi::{
    IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_MULTICAST_LOOP, IP_MULTICAST_TTL, IP_TOS, IP_TTL, IPPROTO_IP,
    IPPROTO_IPV6, IPPROTO_TCP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP, IPV6_MULTICAST_LOOP, IPV6_V6ONLY,
    SO_BROADCAST, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_RCVTIMEO, SO_REUSEADDR, SO_SNDBUF,
    SO_SNDTIMEO, SOL_SOCKET, TCP_NODELAY, ip_mreq, ipv6_mreq, linger, socklen_t, timeval,
};
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, OptionName, SocketOption, V4, V6};

use super::user;
use crate::net::socket::{Direction, Kind, Socket};

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const MICROSECONDS_PER_SECOND: i32 = 1_000_000;

/// An option, by what its value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// A number.
    Number(OptionName),
    /// Yes or no.
    Switch(OptionName),
    /// A group of IPv4.
    GroupV4(OptionName),
    /// A group of IPv6.
    GroupV6(OptionName),
    /// How long is waited.
    TimeLimit(Direction),
    /// What closing does.
    Linger,
}

/// Whether the options of a level are a socket's. Linux has other errors where they are not when it is asked for one.
fn has_level(socket: &Socket, level: i32) -> bool {
    match level {
        IPPROTO_TCP => socket.kind() == Kind::Stream,
        IPPROTO_IPV6 => socket.family() == V6,
        _ => true,
    }
}

fn known(level: i32, name: i32) -> Result<Known, Errno> {
    use Known::{GroupV4, GroupV6, Linger, Number, Switch, TimeLimit};
    Ok(match (level, name) {
        (SOL_SOCKET, SO_ERROR) => Number(OptionName::Error),
        (SOL_SOCKET, SO_REUSEADDR) => Switch(OptionName::ReuseAddress),
        (SOL_SOCKET, SO_KEEPALIVE) => Switch(OptionName::KeepAlive),
        (SOL_SOCKET, SO_BROADCAST) => Switch(OptionName::Broadcast),
        (SOL_SOCKET, SO_SNDBUF) => Number(OptionName::SendBuffer),
        (SOL_SOCKET, SO_RCVBUF) => Number(OptionName::ReceiveBuffer),
        (SOL_SOCKET, SO_LINGER) => Linger,
        (SOL_SOCKET, SO_RCVTIMEO) => TimeLimit(Direction::Receive),
        (SOL_SOCKET, SO_SNDTIMEO) => TimeLimit(Direction::Send),
        (IPPROTO_TCP, TCP_NODELAY) => Switch(OptionName::NoDelay),
        (IPPROTO_IP, IP_TTL) => Number(OptionName::Ttl),
        (IPPROTO_IP, IP_TOS) => Number(OptionName::TypeOfService),
        (IPPROTO_IP, IP_MULTICAST_TTL) => Number(OptionName::MulticastTtl),
        (IPPROTO_IP, IP_MULTICAST_LOOP) => Switch(OptionName::MulticastLoopV4),
        (IPPROTO_IP, IP_ADD_MEMBERSHIP) => GroupV4(OptionName::Join),
        (IPPROTO_IP, IP_DROP_MEMBERSHIP) => GroupV4(OptionName::Leave),
        (IPPROTO_IPV6, IPV6_V6ONLY) => Switch(OptionName::OnlyV6),
        (IPPROTO_IPV6, IPV6_MULTICAST_LOOP) => Switch(OptionName::MulticastLoopV6),
        (IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP) => GroupV6(OptionName::Join),
        (IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP) => GroupV6(OptionName::Leave),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// What the program has passed, if it is large enough.
///
/// # Safety
///
/// Null, or valid for reads of `size` bytes.
unsafe fn value<T: Copy>(place: *const c_void, size: socklen_t) -> Result<T, Errno> {
    if (size as usize) < size_of::<T>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { user::read(place.cast()) }
}

/// Sets an option.
///
/// # Errors
///
/// `ENOPROTOOPT` if there is none, `EINVAL` for a value that cannot be, `EDOM`, `EFAULT`, or what the stack says.
///
/// # Safety
///
/// `place` is null, or valid for reads of `size` bytes.
pub(super) unsafe fn set(
    socket: &Socket,
    (level, name): (i32, i32),
    place: *const c_void,
    size: socklen_t,
) -> Result<(), Errno> {
    let known = known(level, name)?;
    if !has_level(socket, level) {
        return Err(Errno::ENOPROTOOPT);
    }
    let option = match known {
        Known::Number(name) => {
            // SAFETY: the caller's promise.
            let value = unsafe { value::<i32>(place, size) }?;
            if name == OptionName::Error {
                return Err(Errno::ENOPROTOOPT);
            }
            SocketOption { name: name as u32, value: value.cast_unsigned(), ..SocketOption::default() }
        }
        Known::Switch(name) => {
            // SAFETY: the caller's promise.
            let value = unsafe { value::<i32>(place, size) }?;
            SocketOption { name: name as u32, value: u32::from(value != 0), ..SocketOption::default() }
        }
        // SAFETY: the caller's promise.
        Known::GroupV4(name) => group_v4(name, &unsafe { value::<ip_mreq>(place, size) }?),
        // SAFETY: the caller's promise.
        Known::GroupV6(name) => group_v6(name, &unsafe { value::<ipv6_mreq>(place, size) }?),
        Known::TimeLimit(direction) => {
            // SAFETY: the caller's promise.
            let limit = nanoseconds(&unsafe { value::<timeval>(place, size) }?)?;
            socket.set_time_limit(direction, limit);
            return Ok(());
        }
        Known::Linger => {
            // SAFETY: the caller's promise.
            let linger = unsafe { value::<linger>(place, size) }?;
            socket.set_linger((linger.l_onoff != 0).then_some(linger.l_linger.max(0)));
            return Ok(());
        }
    };
    socket.set_option(&option)
}

fn group_v4(name: OptionName, group: &ip_mreq) -> SocketOption {
    let endpoint = |address: u32| Endpoint::from(IpAddr::from(address.to_ne_bytes()));
    SocketOption {
        name: name as u32,
        value: 0,
        group: endpoint(group.imr_multiaddr.s_addr),
        interface: endpoint(group.imr_interface.s_addr),
    }
}

fn group_v6(name: OptionName, group: &ipv6_mreq) -> SocketOption {
    SocketOption {
        name: name as u32,
        value: group.ipv6mr_interface,
        group: IpAddr::from(group.ipv6mr_multiaddr.s6_addr).into(),
        interface: Endpoint::default(),
    }
}

fn nanoseconds(time: &timeval) -> Result<u64, Errno> {
    let microseconds = u64::try_from(time.tv_usec).map_err(|_| Errno::EDOM)?;
    if time.tv_usec >= MICROSECONDS_PER_SECOND {
        return Err(Errno::EDOM);
    }
    // As on Linux: less than no time is no time at all.
    let Ok(seconds) = u64::try_from(time.tv_sec) else { return Ok(1) };
    let whole = seconds.saturating_mul(NANOSECONDS_PER_SECOND);
    Ok(whole.saturating_add(microseconds * NANOSECONDS_PER_MICROSECOND))
}

fn time(nanoseconds: u64) -> timeval {
    let microseconds = nanoseconds % NANOSECONDS_PER_SECOND / NANOSECONDS_PER_MICROSECOND;
    timeval {
        tv_sec: i64::try_from(nanoseconds / NANOSECONDS_PER_SECOND).unwrap_or(i64::MAX),
        tv_usec: i32::try_from(microseconds).unwrap_or(0),
    }
}

/// Stores a value, and how long it is.
///
/// # Safety
///
/// `size` is null, or valid for a read and a write; `place` is null, or valid for writes of as many bytes as `size` says.
unsafe fn store<T>(value: T, place: *mut c_void, size: *mut socklen_t) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let room = unsafe { user::read(size.cast_const()) }?;
    if (room as usize) < size_of::<T>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { user::write(place.cast(), value) }?;
    let length = socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: the caller's promise.
    unsafe { user::write(size, length) }
}

/// Stores the value of an option.
///
/// # Errors
///
/// `ENOPROTOOPT` if there is none, `EINVAL` without room for it, `EFAULT`.
///
/// # Safety
///
/// As for [`store`].
pub(super) unsafe fn get(
    socket: &Socket,
    (level, name): (i32, i32),
    place: *mut c_void,
    size: *mut socklen_t,
) -> Result<(), Errno> {
    let known = known(level, name)?;
    if !has_level(socket, level) {
        let is_v4 = socket.family() == V4;
        return Err(if is_v4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT });
    }
    match known {
        Known::Number(name) | Known::Switch(name) => {
            let value = socket.option(name)?.cast_signed();
            // SAFETY: the caller's promise.
            unsafe { store(value, place, size) }
        }
        Known::GroupV4(_) | Known::GroupV6(_) => Err(Errno::ENOPROTOOPT),
        // SAFETY: the caller's promise.
        Known::TimeLimit(direction) => unsafe { store(time(socket.time_limit(direction)), place, size) },
        Known::Linger => {
            let seconds = socket.linger();
            let value = linger { l_onoff: seconds.is_some().into(), l_linger: seconds.unwrap_or(0) };
            // SAFETY: the caller's promise.
            unsafe { store(value, place, size) }
        }
    }
}
