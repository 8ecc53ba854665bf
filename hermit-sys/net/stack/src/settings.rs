//! Options of sockets: setting and reading them.

use hermit_interface::Errno;

use crate::inner::StackInner;
use crate::options::{OptionName, SocketOption};
use crate::socket::{Family, Socket, SocketId, SocketState};
use crate::udp::DEFAULT_BUFFER;
use crate::udp::groups::Named;

/// Buffers are at most this large, whatever is asked for: Linux's `rmem_max`.
const MAX_BUFFER: u32 = 4 << 20;

/// And at least so large: Linux's `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF`.
const MIN_SEND_BUFFER: u32 = 4608;
const MIN_RECEIVE_BUFFER: u32 = 2304;

const fn nonzero(value: u8) -> Result<u8, Errno> {
    if value == 0 { Err(Errno::EINVAL) } else { Ok(value) }
}

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
        let (slot, socket) = self.socket_mut(id)?;
        let settings = &mut socket.settings;
        match option {
            SocketOption::NoDelay(on) => settings.no_delay = on,
            SocketOption::KeepAlive(on) => settings.keep_alive = on,
            SocketOption::KeepAliveIdle(idle) => settings.keep_alive_idle = seconds(idle)?,
            SocketOption::KeepAliveInterval(interval) => settings.keep_alive_interval = seconds(interval)?,
            SocketOption::KeepAliveCount(count) if !(1..=127).contains(&count) => return Err(Errno::EINVAL),
            SocketOption::KeepAliveCount(count) => settings.keep_alive_count = count,
            SocketOption::ReuseAddress(on) => return self.set_reuse(slot, on),
            SocketOption::Broadcast(on) => settings.broadcast = on,
            SocketOption::SendBuffer(size) => {
                let size = size.clamp(MIN_SEND_BUFFER, MAX_BUFFER);
                settings.send_buffer = Some(size);
                if let Some(connection) = socket.connection_mut() {
                    connection.tcp.set_send_buffer(size);
                }
            }
            SocketOption::ReceiveBuffer(size) => {
                let size = size.clamp(MIN_RECEIVE_BUFFER, MAX_BUFFER);
                settings.receive_buffer = Some(size);
                if let Some(connection) = socket.connection_mut() {
                    connection.tcp.set_receive_buffer(size);
                }
            }
            SocketOption::TimeToLive(ttl) => settings.ttl = nonzero(ttl)?,
            SocketOption::HopLimit(limit) => settings.hop_limit = nonzero(limit)?,
            SocketOption::TypeOfService(class) => settings.class = class,
            SocketOption::MulticastTtlV4(ttl) => settings.multicast_ttl = ttl,
            SocketOption::MulticastLoopV4(on) => settings.multicast_loop_v4 = on,
            SocketOption::MulticastHopsV6(hops) => settings.multicast_hops = hops,
            SocketOption::MulticastLoopV6(on) => settings.multicast_loop_v6 = on,
            SocketOption::OnlyV6(on) => return Self::set_only_v6(socket, on),
            SocketOption::JoinV4 { group, interface } => {
                return self.join(slot, group.into(), self.interface_at(interface));
            }
            SocketOption::LeaveV4 { group, interface } => {
                return self.leave(slot, group.into(), self.interface_at(interface));
            }
            SocketOption::JoinV6 { group, interface } => {
                return self.join(slot, group.into(), Named::by_index(interface));
            }
            SocketOption::LeaveV6 { group, interface } => {
                return self.leave(slot, group.into(), Named::by_index(interface));
            }
            SocketOption::Error(_) => return Err(Errno::ENOPROTOOPT),
        }
        let settings = socket.settings;
        if let Some(connection) = socket.connection_mut() {
            connection.apply(&settings);
        }
        // Deadlines and what may be sent depend on some of them.
        self.mark(slot);
        Ok(())
    }

    fn set_reuse(&mut self, slot: u32, on: bool) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        // How a connection is counted does not change any more.
        if socket.connection().is_none() {
            socket.settings.reuse = on;
        }
        socket
            .ports(&mut self.udp, &mut self.tcp)
            .update(socket.own.port, slot, |binding| binding.reuse = on);
        Ok(())
    }

    fn set_only_v6(socket: &mut Socket, on: bool) -> Result<(), Errno> {
        if socket.family == Family::V4 {
            return Err(Errno::ENOPROTOOPT);
        }
        if socket.is_bound() || socket.connection().is_some() {
            return Err(Errno::EINVAL);
        }
        socket.settings.only_v6 = on;
        Ok(())
    }

    /// Reads an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption, Errno> {
        let (_, socket) = self.socket_mut(id)?;
        let settings = &socket.settings;
        Ok(match name {
            OptionName::NoDelay => SocketOption::NoDelay(settings.no_delay),
            OptionName::KeepAlive => SocketOption::KeepAlive(settings.keep_alive),
            OptionName::KeepAliveIdle => SocketOption::KeepAliveIdle(settings.keep_alive_idle),
            OptionName::KeepAliveInterval => SocketOption::KeepAliveInterval(settings.keep_alive_interval),
            OptionName::KeepAliveCount => SocketOption::KeepAliveCount(settings.keep_alive_count),
            OptionName::ReuseAddress => SocketOption::ReuseAddress(settings.reuse),
            OptionName::Broadcast => SocketOption::Broadcast(settings.broadcast),
            OptionName::SendBuffer => SocketOption::SendBuffer(self.buffers(id)?.1),
            OptionName::ReceiveBuffer => SocketOption::ReceiveBuffer(self.buffers(id)?.0),
            OptionName::TimeToLive => SocketOption::TimeToLive(settings.ttl),
            OptionName::HopLimit => SocketOption::HopLimit(settings.hop_limit),
            OptionName::TypeOfService => SocketOption::TypeOfService(settings.class),
            OptionName::MulticastTtlV4 => SocketOption::MulticastTtlV4(settings.multicast_ttl),
            OptionName::MulticastLoopV4 => SocketOption::MulticastLoopV4(settings.multicast_loop_v4),
            OptionName::MulticastHopsV6 => SocketOption::MulticastHopsV6(settings.multicast_hops),
            OptionName::MulticastLoopV6 => SocketOption::MulticastLoopV6(settings.multicast_loop_v6),
            OptionName::OnlyV6 if socket.family == Family::V4 => return Err(Errno::ENOPROTOOPT),
            OptionName::OnlyV6 => SocketOption::OnlyV6(settings.only_v6),
            OptionName::Error => SocketOption::Error(socket.error.take()),
        })
    }

    /// The sizes of a socket's buffers: to receive and to send.
    fn buffers(&self, id: SocketId) -> Result<(u32, u32), Errno> {
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
