//! Socket options: their defaults, and setting and reading them.

use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption};

use crate::inner::StackInner;
use crate::ip::groups::Named;
use crate::socket::id::SocketId;
use crate::socket::{Family, Socket, SocketState};
use crate::udp::DEFAULT_BUFFER;

/// Maximum buffer size in bytes: Linux's `rmem_max`.
const MAX_BUFFER: u32 = 4 << 20;

/// Minimum buffer sizes in bytes: half of Linux's `SOCK_MIN_SNDBUF`, which counts bookkeeping, too; and `SOCK_MIN_RCVBUF`,
/// so that a full segment fits.
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

/// A hop limit; -1 stands for the default.
fn hops(value: u32, default: u8) -> Result<u8, Errno> {
    if value == u32::MAX { Ok(default) } else { u8::try_from(value).map_err(|_| Errno::EINVAL) }
}

/// A hop limit of at least 1; -1 stands for the default.
fn unicast_hops(value: u32, default: u8) -> Result<u8, Errno> {
    hops(value, default).and_then(|hops| if hops == 0 { Err(Errno::EINVAL) } else { Ok(hops) })
}

/// A keep-alive time in seconds.
const fn seconds(value: u32) -> Result<u32, Errno> {
    if value == 0 || value > 32_767 { Err(Errno::EINVAL) } else { Ok(value) }
}

impl StackInner {
    /// Sets an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<(), Errno> {
        let name = OptionName::from_number(option.name).ok_or(Errno::ENOPROTOOPT)?;
        let (value, is_on) = (option.value, option.value != 0);
        let (slot, socket) = self.socket_mut(id)?;
        let settings = &mut socket.settings;
        match name {
            OptionName::Error => return Err(Errno::ENOPROTOOPT),
            OptionName::NoDelay => settings.no_delay = is_on,
            OptionName::KeepAlive => settings.keep_alive = is_on,
            OptionName::KeepAliveIdle => settings.keep_alive_idle = seconds(value)?,
            OptionName::KeepAliveInterval => settings.keep_alive_interval = seconds(value)?,
            OptionName::KeepAliveCount if !(1..=127).contains(&value) => return Err(Errno::EINVAL),
            OptionName::KeepAliveCount => settings.keep_alive_count = value,
            OptionName::ReuseAddress => return self.set_reuse(slot, is_on),
            OptionName::Broadcast => settings.broadcast = is_on,
            OptionName::SendBuffer => {
                let size = value.clamp(MIN_SEND_BUFFER, MAX_BUFFER);
                settings.send_buffer = Some(size);
                if let Some(connection) = socket.connection_mut() {
                    connection.tcp.set_send_buffer(size);
                }
            }
            OptionName::ReceiveBuffer => {
                let size = value.clamp(MIN_RECEIVE_BUFFER, MAX_BUFFER);
                settings.receive_buffer = Some(size);
                if let Some(connection) = socket.connection_mut() {
                    connection.tcp.set_receive_buffer(size);
                }
            }
            OptionName::Ttl => settings.ttl = unicast_hops(value, DEFAULTS.ttl)?,
            OptionName::HopLimit => settings.hop_limit = unicast_hops(value, DEFAULTS.hop_limit)?,
            // As on Linux, the low eight bits of any value.
            OptionName::TypeOfService => settings.class = value.to_le_bytes()[0],
            OptionName::MulticastTtl => settings.multicast_ttl = hops(value, DEFAULTS.multicast_ttl)?,
            OptionName::MulticastLoopV4 => settings.multicast_loop_v4 = is_on,
            OptionName::MulticastHops => settings.multicast_hops = hops(value, DEFAULTS.multicast_hops)?,
            OptionName::MulticastLoopV6 => settings.multicast_loop_v6 = is_on,
            OptionName::OnlyV6 => return Self::set_only_v6(socket, is_on),
            OptionName::JoinV4 => {
                return self.join(
                    slot,
                    option.group.v4().into(),
                    self.ip.interface_at(option.interface.v4()),
                );
            }
            OptionName::LeaveV4 => {
                return self.leave(
                    slot,
                    option.group.v4().into(),
                    self.ip.interface_at(option.interface.v4()),
                );
            }
            OptionName::JoinV6 => return self.join(slot, option.group.v6().into(), Named::by_index(value)),
            OptionName::LeaveV6 => return self.leave(slot, option.group.v6().into(), Named::by_index(value)),
        }
        let settings = socket.settings;
        if let Some(connection) = socket.connection_mut() {
            connection.apply(&settings);
        }
        // Timers and pending segments depend on some options.
        self.mark(slot);
        Ok(())
    }

    fn set_reuse(&mut self, slot: u32, is_on: bool) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        // The port table counts a connection by the value at its start.
        if socket.connection().is_none() {
            socket.settings.reuse = is_on;
        }
        let ports = socket.ports(&mut self.udp, &mut self.tcp);
        ports.update(socket.own.port, slot, |binding| binding.reuse = is_on);
        Ok(())
    }

    fn set_only_v6(socket: &mut Socket, is_on: bool) -> Result<(), Errno> {
        if socket.family == Family::V4 {
            return Err(Errno::ENOPROTOOPT);
        }
        if socket.is_bound() || socket.connection().is_some() {
            return Err(Errno::EINVAL);
        }
        socket.settings.only_v6 = is_on;
        Ok(())
    }

    /// Reads an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(&mut self, id: SocketId, name: OptionName) -> Result<u32, Errno> {
        let (_, socket) = self.socket_mut(id)?;
        let settings = &socket.settings;
        Ok(match name {
            OptionName::Error => socket.error.take().map_or(0, |error| error.number().unsigned_abs()),
            OptionName::NoDelay => settings.no_delay.into(),
            OptionName::KeepAlive => settings.keep_alive.into(),
            OptionName::KeepAliveIdle => settings.keep_alive_idle,
            OptionName::KeepAliveInterval => settings.keep_alive_interval,
            OptionName::KeepAliveCount => settings.keep_alive_count,
            OptionName::ReuseAddress => settings.reuse.into(),
            OptionName::Broadcast => settings.broadcast.into(),
            OptionName::SendBuffer => self.buffer_sizes(id)?.1,
            OptionName::ReceiveBuffer => self.buffer_sizes(id)?.0,
            OptionName::Ttl => settings.ttl.into(),
            OptionName::HopLimit => settings.hop_limit.into(),
            OptionName::TypeOfService => settings.class.into(),
            OptionName::MulticastTtl => settings.multicast_ttl.into(),
            OptionName::MulticastLoopV4 => settings.multicast_loop_v4.into(),
            OptionName::MulticastHops => settings.multicast_hops.into(),
            OptionName::MulticastLoopV6 => settings.multicast_loop_v6.into(),
            OptionName::OnlyV6 if socket.family == Family::V4 => return Err(Errno::ENOPROTOOPT),
            OptionName::OnlyV6 => settings.only_v6.into(),
            OptionName::JoinV4 | OptionName::LeaveV4 | OptionName::JoinV6 | OptionName::LeaveV6 => {
                return Err(Errno::ENOPROTOOPT);
            }
        })
    }

    /// Sizes in bytes of a socket's receive and send buffer.
    fn buffer_sizes(&self, id: SocketId) -> Result<(u32, u32), Errno> {
        let socket = self.socket(id)?;
        let (receive, send) = match &socket.state {
            SocketState::Connection(connection) => connection.tcp.buffer_limits(),
            SocketState::Udp(_) => (DEFAULT_BUFFER, DEFAULT_BUFFER),
            SocketState::Idle | SocketState::Listener(_) => {
                (self.buffers.buffer(None).0, self.buffers.buffer(None).0)
            }
        };
        let size = |wanted: Option<u32>, is: u32| {
            if socket.connection().is_some() { is } else { wanted.unwrap_or(is) }
        };
        let settings = &socket.settings;
        Ok((size(settings.receive_buffer, receive), size(settings.send_buffer, send)))
    }
}
