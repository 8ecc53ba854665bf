//! Socket options of the network stack, and types of their values.

use core::mem::offset_of;
use core::net::Ipv4Addr;

use hermit_abi::{IPPROTO_IPV6, IPPROTO_TCP, ip_mreq, ipv6_mreq};
use hermit_interface::Errno;
use hermit_interface::net::{CongestionControl, OptionName, SocketOption, V4, V6, ValueKind};
use hermit_io::{Argument, OptionId, ValueResult, field, set_field};

use super::stack_socket::StackSocket;

/// Size in bytes of a name of a congestion control (Linux's `TCP_CA_NAME_MAX`).
const MAX_NAME: usize = 16;

/// Properties of a socket that determine which options it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// [`V4`] or [`V6`].
    pub(super) version: u16,
    /// `IPPROTO_TCP` or `IPPROTO_UDP`.
    pub(super) protocol: i32,
}

impl Scope {
    /// Returns true if a socket has the options of a level. If not, `getsockopt` and `setsockopt` return
    /// different errors on Linux.
    const fn has_level(self, level: i32) -> bool {
        match level {
            IPPROTO_TCP => self.protocol == IPPROTO_TCP,
            IPPROTO_IPV6 => self.version == V6,
            _ => true,
        }
    }
}

fn find((level, number): OptionId) -> Result<(OptionName, ValueKind), Errno> {
    OptionName::find(level, number).ok_or(Errno::ENOPROTOOPT)
}

/// Sets an option.
///
/// # Errors
///
/// `ENOPROTOOPT` for an unknown option, `EINVAL` for an invalid value, `EFAULT`, or the error of the stack.
pub(super) fn set(
    socket: &StackSocket,
    scope: Scope,
    option: OptionId,
    value: &Argument<'_>,
) -> Result<(), Errno> {
    let (name, kind) = find(option)?;
    if !scope.has_level(option.0) {
        return Err(Errno::ENOPROTOOPT);
    }
    socket.set_option(&match kind {
        ValueKind::Int => {
            SocketOption::new(name, int(value.structure(size_of::<i32>())?, 0)?.cast_unsigned())
        }
        ValueKind::Bool => SocketOption::new(name, int(value.structure(size_of::<i32>())?, 0)? != 0),
        ValueKind::CongestionControl => {
            SocketOption::new(name, congestion_control(value.structure(1)?)? as u32)
        }
        ValueKind::GroupV4 => group_v4(name, value.structure(size_of::<ip_mreq>())?)?,
        ValueKind::GroupV6 => group_v6(name, value.structure(size_of::<ipv6_mreq>())?)?,
    })
}

/// Writes the value of an option, which is an `int` or a name.
///
/// # Errors
///
/// `ENOPROTOOPT` for an unknown option, `EOPNOTSUPP`, or the error of the stack or of `value`.
pub(super) fn write(
    socket: &StackSocket,
    scope: Scope,
    option: OptionId,
    value: &mut dyn ValueResult,
) -> Result<(), Errno> {
    let (name, kind) = find(option)?;
    if !scope.has_level(option.0) {
        let is_v4 = scope.version == V4;
        return Err(if is_v4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT });
    }
    let number = socket.option(name)?;
    if kind != ValueKind::CongestionControl {
        return value.write(&number.to_ne_bytes());
    }
    let mut padded = [0; MAX_NAME];
    set_field(&mut padded, 0, CongestionControl::from_number(number).unwrap_or_default().name().as_bytes());
    value.write_truncated(&padded)
}

/// Finds the congestion control with a name. The name may end with a null byte. Fails with `ENOENT` if there
/// is no such congestion control.
fn congestion_control(name: &[u8]) -> Result<CongestionControl, Errno> {
    let name = name.get(..MAX_NAME).unwrap_or(name).split(|&byte| byte == 0).next().unwrap_or_default();
    CongestionControl::from_name(name).ok_or(Errno::ENOENT)
}

/// Reads the `int` at an offset of a value.
fn int(value: &[u8], offset: usize) -> Result<i32, Errno> {
    field(value, offset).map(i32::from_ne_bytes).ok_or(Errno::EINVAL)
}

/// Reads an option whose value is an `ip_mreq`.
fn group_v4(name: OptionName, value: &[u8]) -> Result<SocketOption, Errno> {
    let address = |offset| field::<4>(value, offset).map(Ipv4Addr::from).ok_or(Errno::EINVAL);
    let group = address(offset_of!(ip_mreq, imr_multiaddr))?;
    Ok(SocketOption::group_v4(name, group, address(offset_of!(ip_mreq, imr_interface))?))
}

/// Reads an option whose value is an `ipv6_mreq`.
fn group_v6(name: OptionName, value: &[u8]) -> Result<SocketOption, Errno> {
    let group: [u8; 16] = field(value, offset_of!(ipv6_mreq, ipv6mr_multiaddr)).ok_or(Errno::EINVAL)?;
    let index = int(value, offset_of!(ipv6_mreq, ipv6mr_interface))?.cast_unsigned();
    Ok(SocketOption::group_v6(name, group.into(), index))
}
