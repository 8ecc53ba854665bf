//! Options of sockets.

use core::net::{Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;

/// An option with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `TCP_NODELAY`: a small segment does not wait for the acknowledgement of another.
    NoDelay(bool),
    /// `SO_KEEPALIVE`: a silent peer is asked whether it is there.
    KeepAlive(bool),
    /// `TCP_KEEPIDLE`: after how many seconds of silence.
    KeepAliveIdle(u32),
    /// `TCP_KEEPINTVL`: seconds between questions.
    KeepAliveInterval(u32),
    /// `TCP_KEEPCNT`: how many go unanswered before the connection is given up.
    KeepAliveCount(u32),
    /// `SO_REUSEADDR`.
    ReuseAddress(bool),
    /// `SO_BROADCAST`: broadcast addresses may be sent to.
    Broadcast(bool),
    /// `SO_SNDBUF`, in bytes. Without it, that of a stream grows with what is in flight; what is read is what there is.
    SendBuffer(u32),
    /// `SO_RCVBUF`, in bytes. Without it, that of a stream grows with what its owner reads in a round trip.
    ReceiveBuffer(u32),
    /// `IP_TTL`; 0 is refused.
    TimeToLive(u8),
    /// `IPV6_UNICAST_HOPS`; 0 is refused.
    HopLimit(u8),
    /// `IP_TOS`.
    TypeOfService(u8),
    /// `IP_MULTICAST_TTL`.
    MulticastTtlV4(u8),
    /// `IP_MULTICAST_LOOP`: what is sent to a group is received by this host's own members.
    MulticastLoopV4(bool),
    /// `IPV6_MULTICAST_HOPS`.
    MulticastHopsV6(u8),
    /// `IPV6_MULTICAST_LOOP`.
    MulticastLoopV6(bool),
    /// `IPV6_V6ONLY`: no IPv4 as mapped addresses. Only before the socket is bound.
    OnlyV6(bool),
    /// `IP_ADD_MEMBERSHIP`.
    JoinV4 {
        /// The group.
        group: Ipv4Addr,
        /// An address of the interface on which it is; the unspecified one stands for the device.
        interface: Ipv4Addr,
    },
    /// `IP_DROP_MEMBERSHIP`.
    LeaveV4 {
        /// The group.
        group: Ipv4Addr,
        /// As for [`JoinV4`](Self::JoinV4), but the unspecified one stands for whichever it is.
        interface: Ipv4Addr,
    },
    /// `IPV6_ADD_MEMBERSHIP`.
    JoinV6 {
        /// The group.
        group: Ipv6Addr,
        /// The number of the interface: 1 is the loopback, 2 the device, and so is 0.
        interface: u32,
    },
    /// `IPV6_DROP_MEMBERSHIP`.
    LeaveV6 {
        /// The group.
        group: Ipv6Addr,
        /// As for [`JoinV6`](Self::JoinV6), but 0 stands for whichever it is.
        interface: u32,
    },
    /// `SO_ERROR`: reading it takes it. It cannot be set.
    Error(Option<Errno>),
}

/// An option without a value, to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionName {
    /// [`SocketOption::NoDelay`].
    NoDelay,
    /// [`SocketOption::KeepAlive`].
    KeepAlive,
    /// [`SocketOption::KeepAliveIdle`].
    KeepAliveIdle,
    /// [`SocketOption::KeepAliveInterval`].
    KeepAliveInterval,
    /// [`SocketOption::KeepAliveCount`].
    KeepAliveCount,
    /// [`SocketOption::ReuseAddress`].
    ReuseAddress,
    /// [`SocketOption::Broadcast`].
    Broadcast,
    /// [`SocketOption::SendBuffer`].
    SendBuffer,
    /// [`SocketOption::ReceiveBuffer`].
    ReceiveBuffer,
    /// [`SocketOption::TimeToLive`].
    TimeToLive,
    /// [`SocketOption::HopLimit`].
    HopLimit,
    /// [`SocketOption::TypeOfService`].
    TypeOfService,
    /// [`SocketOption::MulticastTtlV4`].
    MulticastTtlV4,
    /// [`SocketOption::MulticastLoopV4`].
    MulticastLoopV4,
    /// [`SocketOption::MulticastHopsV6`].
    MulticastHopsV6,
    /// [`SocketOption::MulticastLoopV6`].
    MulticastLoopV6,
    /// [`SocketOption::OnlyV6`].
    OnlyV6,
    /// [`SocketOption::Error`].
    Error,
}

/// What a socket is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) no_delay: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_idle: u32,
    pub(crate) keep_alive_interval: u32,
    pub(crate) keep_alive_count: u32,
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

impl Default for Settings {
    /// As Linux has them.
    fn default() -> Self {
        Self {
            no_delay: false,
            keep_alive: false,
            keep_alive_idle: 7200,
            keep_alive_interval: 75,
            keep_alive_count: 9,
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
        }
    }
}

impl Settings {
    /// The limit of hops for packets to an address that is no group's.
    pub(crate) const fn hops(&self, is_v4: bool) -> u8 {
        if is_v4 { self.ttl } else { self.hop_limit }
    }
}
