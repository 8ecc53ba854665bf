//! Socket options: their defaults, and setting and reading them.
//!
//! Most options are stored in [`SocketSettings`], and read where they have an effect. Options that depend on
//! the state of the socket, such as `SO_REUSEADDR`, are handled by the socket table. Changes of multicast
//! memberships are parsed here and executed by UDP.

use core::net::{IpAddr, Ipv4Addr};

use hermit_interface::Errno;
use hermit_interface::net::{CongestionControl, OptionName, SocketOption};

use crate::socket::kind::Family;

/// Maximum buffer size in bytes: Linux's `rmem_max`.
const MAX_BUFFER: u32 = 4 << 20;

/// Minimum buffer sizes in bytes. For sending, it is half of Linux's `SOCK_MIN_SNDBUF`, which counts
/// bookkeeping, too. For receiving, it is `SOCK_MIN_RCVBUF`, so that a full segment fits.
const MIN_SEND_BUFFER: u32 = 2304;
const MIN_RECEIVE_BUFFER: u32 = 2304;

/// Options of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketSettings {
    pub(crate) no_delay: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_idle: u32,
    pub(crate) keep_alive_interval: u32,
    pub(crate) keep_alive_count: u32,
    pub(crate) quick_ack: bool,
    /// In milliseconds; 0 for the default.
    pub(crate) user_timeout: u32,
    pub(crate) congestion: CongestionControl,
    pub(crate) reuse: bool,
    pub(crate) broadcast: bool,
    pub(crate) send_buffer: Option<u32>,
    pub(crate) receive_buffer: Option<u32>,
    pub(crate) ttl: u8,
    pub(crate) hop_limit: u8,
    pub(crate) class: u8,
    pub(crate) multicast_ttl: u8,
    pub(crate) multicast_loop_v4: bool,
    pub(crate) multicast_hops: u8,
    pub(crate) multicast_loop_v6: bool,
    pub(crate) only_v6: bool,
}

/// Linux's defaults. Multicast packets do not leave the link (RFC 1112 §6.1).
const DEFAULTS: SocketSettings = SocketSettings {
    no_delay: false,
    keep_alive: false,
    keep_alive_idle: 7200,
    keep_alive_interval: 75,
    keep_alive_count: 9,
    quick_ack: false,
    user_timeout: 0,
    congestion: CongestionControl::Cubic,
    reuse: false,
    broadcast: false,
    send_buffer: None,
    receive_buffer: None,
    ttl: 64,
    hop_limit: 64,
    class: 0,
    multicast_ttl: 1,
    multicast_loop_v4: true,
    multicast_hops: 1,
    multicast_loop_v6: true,
    only_v6: false,
};

impl Default for SocketSettings {
    fn default() -> Self {
        DEFAULTS
    }
}

impl SocketSettings {
    /// Hop limit of unicast packets.
    pub(crate) const fn hops(&self, is_v4: bool) -> u8 {
        if is_v4 { self.ttl } else { self.hop_limit }
    }
}

/// Checks and returns a hop limit; -1 means the default.
fn hops(value: u32, default: u8) -> Result<u8, Errno> {
    if value == u32::MAX { Ok(default) } else { u8::try_from(value).map_err(|_| Errno::EINVAL) }
}

/// Checks and returns a hop limit of at least 1; -1 means the default.
fn unicast_hops(value: u32, default: u8) -> Result<u8, Errno> {
    hops(value, default).and_then(|hops| if hops == 0 { Err(Errno::EINVAL) } else { Ok(hops) })
}

/// Checks and returns a keep-alive time in seconds.
const fn seconds(value: u32) -> Result<u32, Errno> {
    if value == 0 || value > 32_767 { Err(Errno::EINVAL) } else { Ok(value) }
}

/// Interface of a membership, as a program specifies it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InterfaceName {
    /// Interface with this address; the unspecified address means any interface.
    Address(Ipv4Addr),
    /// Interface with this index; 0 means any interface.
    Index(u32),
}

/// A change of a multicast membership (`IP_ADD_MEMBERSHIP` and the like).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MembershipChange {
    pub(crate) is_join: bool,
    pub(crate) group: IpAddr,
    pub(crate) interface: InterfaceName,
}

impl MembershipChange {
    /// Returns the change that an option of a socket of this family requests; `None` if it is another option.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the address is not multicast, or has the other family.
    pub(crate) fn of(option: &SocketOption, name: OptionName, family: Family) -> Result<Option<Self>, Errno> {
        let by_address = InterfaceName::Address(option.interface.v4());
        let by_index = InterfaceName::Index(option.value);
        let (is_join, group, interface): (_, IpAddr, _) = match name {
            OptionName::JoinV4 => (true, option.group.v4().into(), by_address),
            OptionName::LeaveV4 => (false, option.group.v4().into(), by_address),
            OptionName::JoinV6 => (true, option.group.v6().into(), by_index),
            OptionName::LeaveV6 => (false, option.group.v6().into(), by_index),
            _ => return Ok(None),
        };
        let is_valid = if is_join {
            group.is_multicast() && (family == Family::V6 || group.is_ipv4())
        } else {
            group.is_multicast() || group.is_ipv4()
        };
        if is_valid { Ok(Some(Self { is_join, group, interface })) } else { Err(Errno::EINVAL) }
    }
}

impl SocketSettings {
    /// Sets an option that does not depend on the state of the socket.
    pub(super) fn set(&mut self, name: OptionName, value: u32) -> Result<(), Errno> {
        let is_on = value != 0;
        match name {
            OptionName::NoDelay => self.no_delay = is_on,
            OptionName::KeepAlive => self.keep_alive = is_on,
            OptionName::KeepAliveIdle => self.keep_alive_idle = seconds(value)?,
            OptionName::KeepAliveInterval => self.keep_alive_interval = seconds(value)?,
            OptionName::KeepAliveCount if !(1..=127).contains(&value) => return Err(Errno::EINVAL),
            OptionName::KeepAliveCount => self.keep_alive_count = value,
            OptionName::QuickAck => self.quick_ack = is_on,
            OptionName::UserTimeout if value.cast_signed() < 0 => return Err(Errno::EINVAL),
            OptionName::UserTimeout => self.user_timeout = value,
            OptionName::Congestion => {
                self.congestion = CongestionControl::from_number(value).ok_or(Errno::ENOENT)?;
            }
            OptionName::Broadcast => self.broadcast = is_on,
            OptionName::SendBuffer => self.send_buffer = Some(value.clamp(MIN_SEND_BUFFER, MAX_BUFFER)),
            OptionName::ReceiveBuffer => {
                self.receive_buffer = Some(value.clamp(MIN_RECEIVE_BUFFER, MAX_BUFFER));
            }
            OptionName::Ttl => self.ttl = unicast_hops(value, DEFAULTS.ttl)?,
            OptionName::HopLimit => self.hop_limit = unicast_hops(value, DEFAULTS.hop_limit)?,
            // Uses the low eight bits of any value, as Linux does.
            OptionName::TypeOfService => self.class = value.to_le_bytes()[0],
            OptionName::MulticastTtl => self.multicast_ttl = hops(value, DEFAULTS.multicast_ttl)?,
            OptionName::MulticastLoopV4 => self.multicast_loop_v4 = is_on,
            OptionName::MulticastHops => self.multicast_hops = hops(value, DEFAULTS.multicast_hops)?,
            OptionName::MulticastLoopV6 => self.multicast_loop_v6 = is_on,
            OptionName::Error
            | OptionName::ReuseAddress
            | OptionName::OnlyV6
            | OptionName::JoinV4
            | OptionName::LeaveV4
            | OptionName::JoinV6
            | OptionName::LeaveV6 => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    /// Returns the value of an option. `receive` and `send` are the sizes in bytes of the buffers in use.
    pub(super) fn get(&self, name: OptionName, (receive, send): (u32, u32)) -> Result<u32, Errno> {
        Ok(match name {
            OptionName::NoDelay => self.no_delay.into(),
            OptionName::KeepAlive => self.keep_alive.into(),
            OptionName::KeepAliveIdle => self.keep_alive_idle,
            OptionName::KeepAliveInterval => self.keep_alive_interval,
            OptionName::KeepAliveCount => self.keep_alive_count,
            OptionName::QuickAck => self.quick_ack.into(),
            OptionName::UserTimeout => self.user_timeout,
            OptionName::Congestion => self.congestion as u32,
            OptionName::ReuseAddress => self.reuse.into(),
            OptionName::Broadcast => self.broadcast.into(),
            OptionName::SendBuffer => send,
            OptionName::ReceiveBuffer => receive,
            OptionName::Ttl => self.ttl.into(),
            OptionName::HopLimit => self.hop_limit.into(),
            OptionName::TypeOfService => self.class.into(),
            OptionName::MulticastTtl => self.multicast_ttl.into(),
            OptionName::MulticastLoopV4 => self.multicast_loop_v4.into(),
            OptionName::MulticastHops => self.multicast_hops.into(),
            OptionName::MulticastLoopV6 => self.multicast_loop_v6.into(),
            OptionName::OnlyV6 => self.only_v6.into(),
            OptionName::Error
            | OptionName::JoinV4
            | OptionName::LeaveV4
            | OptionName::JoinV6
            | OptionName::LeaveV6 => return Err(Errno::ENOPROTOOPT),
        })
    }
}
