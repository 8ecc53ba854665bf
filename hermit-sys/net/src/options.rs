//! Conversion of socket options between kernel and stack.

use hermit_interface::Errno;
use hermit_interface::net::{self, OptionName as Number, V4};
use hermit_net_stack::{OptionName, SocketOption};

use crate::addresses::{v4, v6};

/// The stack's type for an option that the kernel sets.
///
/// # Errors
///
/// `ENOPROTOOPT` if the option is unknown or cannot be set, `EINVAL` for an invalid value.
pub(crate) fn from_kernel(option: &net::SocketOption) -> Result<SocketOption, Errno> {
    let name = Number::from_number(option.name).ok_or(Errno::ENOPROTOOPT)?;
    let (value, switch) = (option.value, option.value != 0);
    let byte = || u8::try_from(value).map_err(|_| Errno::EINVAL);
    // -1 stands for the default.
    let byte_or = |default: u8| if value == u32::MAX { Ok(default) } else { byte() };
    Ok(match name {
        Number::Error => return Err(Errno::ENOPROTOOPT),
        Number::ReuseAddress => SocketOption::ReuseAddress(switch),
        Number::KeepAlive => SocketOption::KeepAlive(switch),
        Number::Broadcast => SocketOption::Broadcast(switch),
        Number::SendBuffer => SocketOption::SendBuffer(value),
        Number::ReceiveBuffer => SocketOption::ReceiveBuffer(value),
        Number::NoDelay => SocketOption::NoDelay(switch),
        Number::Ttl => SocketOption::TimeToLive(byte_or(DEFAULT_TTL)?),
        // As on Linux, the low eight bits of any value.
        Number::TypeOfService => SocketOption::TypeOfService(value.to_le_bytes()[0]),
        Number::MulticastTtl => SocketOption::MulticastTtlV4(byte_or(DEFAULT_MULTICAST_TTL)?),
        Number::MulticastLoopV4 => SocketOption::MulticastLoopV4(switch),
        Number::MulticastLoopV6 => SocketOption::MulticastLoopV6(switch),
        Number::OnlyV6 => SocketOption::OnlyV6(switch),
        Number::KeepAliveIdle => SocketOption::KeepAliveIdle(value),
        Number::KeepAliveInterval => SocketOption::KeepAliveInterval(value),
        Number::KeepAliveCount => SocketOption::KeepAliveCount(value),
        Number::HopLimit => SocketOption::HopLimit(byte_or(DEFAULT_TTL)?),
        Number::MulticastHops => SocketOption::MulticastHopsV6(byte_or(DEFAULT_MULTICAST_TTL)?),
        Number::Join if option.group.family == V4 => {
            SocketOption::JoinV4 { group: v4(&option.group), interface: v4(&option.interface) }
        }
        Number::Join => SocketOption::JoinV6 { group: v6(&option.group), interface: value },
        Number::Leave if option.group.family == V4 => {
            SocketOption::LeaveV4 { group: v4(&option.group), interface: v4(&option.interface) }
        }
        Number::Leave => SocketOption::LeaveV6 { group: v6(&option.group), interface: value },
    })
}

/// Default time to live, as on Linux.
const DEFAULT_TTL: u8 = 64;

/// Default time to live of multicast packets: they do not leave the link (RFC 1112 §6.1).
const DEFAULT_MULTICAST_TTL: u8 = 1;

/// The stack's name of an option that the kernel reads.
///
/// # Errors
///
/// `ENOPROTOOPT` if the option is unknown or cannot be read.
pub(crate) fn name(number: u32) -> Result<OptionName, Errno> {
    Ok(match Number::from_number(number).ok_or(Errno::ENOPROTOOPT)? {
        Number::Error => OptionName::Error,
        Number::ReuseAddress => OptionName::ReuseAddress,
        Number::KeepAlive => OptionName::KeepAlive,
        Number::Broadcast => OptionName::Broadcast,
        Number::SendBuffer => OptionName::SendBuffer,
        Number::ReceiveBuffer => OptionName::ReceiveBuffer,
        Number::NoDelay => OptionName::NoDelay,
        Number::Ttl => OptionName::TimeToLive,
        Number::TypeOfService => OptionName::TypeOfService,
        Number::MulticastTtl => OptionName::MulticastTtlV4,
        Number::MulticastLoopV4 => OptionName::MulticastLoopV4,
        Number::MulticastLoopV6 => OptionName::MulticastLoopV6,
        Number::OnlyV6 => OptionName::OnlyV6,
        Number::KeepAliveIdle => OptionName::KeepAliveIdle,
        Number::KeepAliveInterval => OptionName::KeepAliveInterval,
        Number::KeepAliveCount => OptionName::KeepAliveCount,
        Number::HopLimit => OptionName::HopLimit,
        Number::MulticastHops => OptionName::MulticastHopsV6,
        Number::Join | Number::Leave => return Err(Errno::ENOPROTOOPT),
    })
}

/// The value of an option as a number.
pub(crate) fn value(option: SocketOption) -> u32 {
    match option {
        SocketOption::NoDelay(switch)
        | SocketOption::KeepAlive(switch)
        | SocketOption::ReuseAddress(switch)
        | SocketOption::Broadcast(switch)
        | SocketOption::MulticastLoopV4(switch)
        | SocketOption::MulticastLoopV6(switch)
        | SocketOption::OnlyV6(switch) => switch.into(),
        SocketOption::KeepAliveIdle(number)
        | SocketOption::KeepAliveInterval(number)
        | SocketOption::KeepAliveCount(number)
        | SocketOption::SendBuffer(number)
        | SocketOption::ReceiveBuffer(number) => number,
        SocketOption::TimeToLive(number)
        | SocketOption::HopLimit(number)
        | SocketOption::TypeOfService(number)
        | SocketOption::MulticastTtlV4(number)
        | SocketOption::MulticastHopsV6(number) => number.into(),
        SocketOption::Error(error) => error.map_or(0, |error| error.number().unsigned_abs()),
        SocketOption::JoinV4 { .. }
        | SocketOption::LeaveV4 { .. }
        | SocketOption::JoinV6 { .. }
        | SocketOption::LeaveV6 { .. } => 0,
    }
}
