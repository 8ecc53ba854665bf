//! Socket options. This is the only table of their names, numbers and types of values. Both the kernel and
//! the network stack use it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_abi::{
    IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_MULTICAST_LOOP, IP_MULTICAST_TTL, IP_TOS, IP_TTL, IPPROTO_IP,
    IPPROTO_IPV6, IPPROTO_TCP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP, IPV6_MULTICAST_HOPS,
    IPV6_MULTICAST_LOOP, IPV6_UNICAST_HOPS, IPV6_V6ONLY, SO_BROADCAST, SO_ERROR, SO_KEEPALIVE, SO_RCVBUF,
    SO_REUSEADDR, SO_SNDBUF, SOL_SOCKET, TCP_CONGESTION, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL,
    TCP_NODELAY, TCP_QUICKACK, TCP_USER_TIMEOUT,
};

use super::Endpoint;

/// A socket option with its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SocketOption {
    /// An [`OptionName`].
    pub name: u32,
    /// For [`ValueKind::Int`] and [`ValueKind::Bool`], the value. For [`ValueKind::CongestionControl`], the
    /// number of the [`CongestionControl`]. For [`ValueKind::GroupV6`], the index of an interface, or 0.
    pub value: u32,
    /// Address of a multicast group.
    pub group: Endpoint,
    /// [`ValueKind::GroupV4`] only: address of the interface, or the unspecified address.
    pub interface: Endpoint,
}

impl SocketOption {
    /// An option with an `int` or boolean value.
    #[must_use]
    pub fn new(name: OptionName, value: impl Into<u32>) -> Self {
        Self { name: name as u32, value: value.into(), ..Self::default() }
    }

    /// An option with an IPv4 multicast group and an address of the interface, or the unspecified address.
    #[must_use]
    pub fn group_v4(name: OptionName, group: Ipv4Addr, interface: Ipv4Addr) -> Self {
        let [group, interface] = [group, interface].map(|address| IpAddr::from(address).into());
        Self { group, interface, ..Self::new(name, 0_u32) }
    }

    /// An option with an IPv6 multicast group and the index of the interface, or 0.
    #[must_use]
    pub fn group_v6(name: OptionName, group: Ipv6Addr, interface: u32) -> Self {
        Self { group: IpAddr::from(group).into(), ..Self::new(name, interface) }
    }
}

/// A congestion control of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

impl CongestionControl {
    /// All congestion controls, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// Returns the name of the congestion control, as on Linux.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }

    /// Returns the congestion control with this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name().as_bytes() == name)
    }

    /// Returns the congestion control with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&control| control as u32 == number)
    }
}

/// Type of the value of a socket option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// An `int`.
    Int,
    /// An `int` that is a boolean.
    Bool,
    /// A name of a [`CongestionControl`]; [`SocketOption::value`] is its number.
    CongestionControl,
    /// An `ip_mreq`: IPv4 multicast group and interface. Such options can only be set.
    GroupV4,
    /// An `ipv6_mreq`: IPv6 multicast group and interface. Such options can only be set.
    GroupV6,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident = $level:ident, $number:ident, $kind:ident;)*) => {
        /// Name of a socket option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum OptionName {
            $($(#[$doc])* $name,)*
        }

        /// Name, level, number in the level, and type of the value of each option, in the order of
        /// [`OptionName`].
        const OPTIONS: &[(OptionName, i32, i32, ValueKind)] =
            &[$((OptionName::$name, $level, $number, ValueKind::$kind),)*];
    };
}

options! {
    /// The pending error; reading clears it. It cannot be set.
    Error = SOL_SOCKET, SO_ERROR, Int;
    /// Bindings to an address in use are allowed, as in Linux.
    ReuseAddress = SOL_SOCKET, SO_REUSEADDR, Bool;
    /// Keep-alive probes are sent on idle connections.
    KeepAlive = SOL_SOCKET, SO_KEEPALIVE, Bool;
    /// Broadcast addresses are allowed as destination.
    Broadcast = SOL_SOCKET, SO_BROADCAST, Bool;
    /// Size of the send buffer in bytes. The buffer of a stream grows on demand unless its size is set.
    SendBuffer = SOL_SOCKET, SO_SNDBUF, Int;
    /// Size of the receive buffer in bytes. The buffer of a stream grows on demand unless its size is set.
    ReceiveBuffer = SOL_SOCKET, SO_RCVBUF, Int;
    /// Small segments are sent at once: Nagle's algorithm is off.
    NoDelay = IPPROTO_TCP, TCP_NODELAY, Bool;
    /// Idle time before the first keep-alive probe, in seconds.
    KeepAliveIdle = IPPROTO_TCP, TCP_KEEPIDLE, Int;
    /// Interval between keep-alive probes, in seconds.
    KeepAliveInterval = IPPROTO_TCP, TCP_KEEPINTVL, Int;
    /// Number of unanswered keep-alive probes after which a connection times out.
    KeepAliveCount = IPPROTO_TCP, TCP_KEEPCNT, Int;
    /// Acknowledgements are not delayed.
    QuickAck = IPPROTO_TCP, TCP_QUICKACK, Bool;
    /// Time without an acknowledgement of sent data that ends the connection, in milliseconds; 0 for the
    /// default.
    UserTimeout = IPPROTO_TCP, TCP_USER_TIMEOUT, Int;
    /// The congestion control.
    Congestion = IPPROTO_TCP, TCP_CONGESTION, CongestionControl;
    /// Time to live of IPv4 packets, 1 to 255, or -1 for the default.
    Ttl = IPPROTO_IP, IP_TTL, Int;
    /// Type of service of IPv4 packets.
    TypeOfService = IPPROTO_IP, IP_TOS, Int;
    /// Time to live of IPv4 multicast packets, 0 to 255, or -1 for the default.
    MulticastTtl = IPPROTO_IP, IP_MULTICAST_TTL, Int;
    /// IPv4 multicast packets are delivered to members on this host.
    MulticastLoopV4 = IPPROTO_IP, IP_MULTICAST_LOOP, Bool;
    /// Joins an IPv4 multicast group.
    JoinV4 = IPPROTO_IP, IP_ADD_MEMBERSHIP, GroupV4;
    /// Leaves an IPv4 multicast group.
    LeaveV4 = IPPROTO_IP, IP_DROP_MEMBERSHIP, GroupV4;
    /// The socket is restricted to IPv6. It can be set only before the socket is bound.
    OnlyV6 = IPPROTO_IPV6, IPV6_V6ONLY, Bool;
    /// Hop limit of IPv6 packets, 1 to 255, or -1 for the default.
    HopLimit = IPPROTO_IPV6, IPV6_UNICAST_HOPS, Int;
    /// Hop limit of IPv6 multicast packets, 0 to 255, or -1 for the default.
    MulticastHops = IPPROTO_IPV6, IPV6_MULTICAST_HOPS, Int;
    /// IPv6 multicast packets are delivered to members on this host.
    MulticastLoopV6 = IPPROTO_IPV6, IPV6_MULTICAST_LOOP, Bool;
    /// Joins an IPv6 multicast group.
    JoinV6 = IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, GroupV6;
    /// Leaves an IPv6 multicast group.
    LeaveV6 = IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, GroupV6;
}

impl OptionName {
    /// Returns the option with this number, or `None` if there is no such option.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        OPTIONS.get(crate::to_usize(number.into())).map(|&(name, ..)| name)
    }

    /// Returns the option with this level and number of `setsockopt`, and the type of its value. Returns
    /// `None` if there is no such option.
    #[must_use]
    pub fn find(level: i32, number: i32) -> Option<(Self, ValueKind)> {
        let option = OPTIONS.iter().find(|option| (option.1, option.2) == (level, number));
        option.map(|&(name, _, _, kind)| (name, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::{CongestionControl, OPTIONS, OptionName};

    #[test]
    fn congestion_controls_are_found_by_name_and_number() {
        for control in CongestionControl::ALL {
            assert_eq!(CongestionControl::from_name(control.name().as_bytes()), Some(control));
            assert_eq!(CongestionControl::from_number(control as u32), Some(control));
        }
        assert_eq!((CongestionControl::from_name(b"cubi"), CongestionControl::from_number(3)), (None, None));
    }

    #[test]
    fn options_are_found_by_their_numbers() {
        for &(name, level, number, kind) in OPTIONS {
            assert_eq!(OptionName::from_number(name as u32), Some(name));
            assert_eq!(OptionName::find(level, number), Some((name, kind)));
        }
        assert_eq!(OptionName::from_number(u32::MAX), None);
        assert_eq!(OptionName::find(-1, 0), None);
    }
}
