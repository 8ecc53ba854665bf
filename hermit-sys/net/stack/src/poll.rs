//! One poll: receive frames, handle expired timers, transmit.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::dns::client;
use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::config::SmoltcpSocket;
use crate::ip::ingress::{DHCP_CLIENT, DHCP_SERVER, Delivery, Via};
use crate::phy::device::{NetDevice, ReceivedInfo};
use crate::phy::tx_queue::{DeviceLink, Link};
use crate::socket::{Socket, SocketState};
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::RETRY_INTERVAL;
use crate::wire::packet::Packet;

/// Maximum number of frames received, and of units of work, in one poll.
const FRAMES: usize = 256;
const WORK: usize = 1024;

/// Time in nanoseconds after which a full transmit queue is polled again. Devices interrupt when there is room, but not
/// all do, and a bulk sender waits for nothing else: the first retry is early, and the interval doubles while the queue
/// stays full.
const FULL: u64 = 50_000;
const STUCK: u64 = 10_000_000;

/// A time that is never reached.
const NEVER: u64 = u64::MAX;

impl StackInner {
    /// Polls; returns the time of the next timer.
    pub(crate) fn poll<H: NetDevice>(
        &mut self,
        device: &mut Option<H>,
        host: &mut dyn Host,
        now: u64,
    ) -> Option<u64> {
        self.now = self.now.max(now);
        // TIME-WAIT records that have expired meanwhile must not answer the segments that are received now.
        self.expire_time_wait();
        let is_crowded = self.receive_frames(device, host);
        if !is_crowded {
            self.phy.caught_up = self.now;
        }
        self.admit_deferred(host);
        let mut link = DeviceLink::new(device);
        // Queued answers are sent before segments of connections.
        self.phy.flush(&mut link);
        self.uncork();
        self.unblock_all(&mut link, host);
        self.run_timers(&mut link, host);
        self.dns.poll(&mut self.ip, &mut link, self.now);
        self.wake_queries(host);
        let local = self.phy.loopback.taken();
        let is_done = self.work(&mut link, host);
        let has_moved = link.has_taken || self.phy.loopback.taken() != local;
        self.stuck_since =
            self.is_waiting().then(|| self.stuck_since.filter(|_| !has_moved).unwrap_or(self.now));
        self.next(is_crowded || !is_done)
    }

    /// Receives frames; returns whether there may be more.
    fn receive_frames<H: NetDevice>(&mut self, device: &mut Option<H>, host: &mut dyn Host) -> bool {
        let Some(device) = device else { return false };
        for _ in 0..FRAMES {
            if device.receive(|frame, info| self.receive_frame(frame, info, host)).is_none() {
                return false;
            }
        }
        true
    }

    /// Receives a frame, and hands what it holds to the layer above.
    fn receive_frame(&mut self, bytes: &[u8], info: ReceivedInfo, host: &mut dyn Host) {
        let Some(delivery) = self.ip.receive(bytes, info, &mut self.phy, self.now) else { return };
        match delivery {
            Delivery::Segment { packet, via, is_checked } => {
                self.receive_segment(&packet, via, is_checked, host);
            }
            Delivery::Datagram { packet, is_checked } => {
                self.dispatch_datagram(bytes, &packet, is_checked, host);
            }
            Delivery::Reassembled(frame) => self.receive_frame(&frame, ReceivedInfo::default(), host),
            Delivery::Resolved(connections) => connections.into_iter().for_each(|slot| self.mark(slot)),
            Delivery::Error(quoted, error) => self.handle_icmp_error(&quoted, error, host),
            Delivery::PathMtu(quoted, mtu) => self.shrink_path(&quoted, mtu),
        }
    }

    /// Hands a datagram to a UDP socket, the DHCP client or the DNS client, or refuses it.
    fn dispatch_datagram(
        &mut self,
        bytes: &[u8],
        packet: &Packet<'_>,
        is_checked: bool,
        host: &mut dyn Host,
    ) {
        let Some(datagram) = packet.udp(is_checked) else { return };
        let (from, to) = (datagram.src_port(), datagram.dst_port());
        let now = self.now;
        if from == DHCP_SERVER && to == DHCP_CLIENT && self.udp.bindings(to).is_empty() {
            return self.ip.pass_to_smoltcp(bytes, SmoltcpSocket::Dhcp, &mut self.phy, now);
        }
        let is_received = !self.ip.is_received_here(packet.destination)
            || self.receive_datagram(packet, is_checked, host)
            || from == client::PORT
                && self.dns.receive(packet.source, bytes, &mut self.ip, &mut self.phy, now);
        if is_received {
            self.wake_queries(host);
        } else {
            self.ip.refuse(bytes, &mut self.phy, now);
        }
    }

    /// Wakes the waiters of queries that have got their result.
    fn wake_queries(&mut self, host: &mut dyn Host) {
        while let Some(waker_key) = self.dns.take_woken() {
            host.wake(waker_key);
        }
    }

    fn run_timers(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let now = self.now;
        while let Some(slot) = self.timers.pop_due(now) {
            self.on_timer(slot, host);
        }
        while let Some(connections) = self.ip.run_timers(&self.phy, link, now) {
            self.give_up(connections, host);
        }
    }

    /// Fails the connections that waited for a neighbor which does not answer.
    fn give_up(&mut self, connections: Vec<u32>, host: &mut dyn Host) {
        for slot in connections {
            let Some(connection) = self.connection(slot) else { continue };
            if connection.phase == Phase::Connecting && !connection.is_over {
                self.fail(slot, Errno::EHOSTUNREACH, host);
            }
        }
    }

    /// Serves all queued sockets, and receives loopback packets; returns whether nothing is left.
    fn work(&mut self, link: &mut dyn Link, host: &mut dyn Host) -> bool {
        for _ in 0..WORK {
            if let Some(bytes) = self.phy.loopback.pop() {
                if let Some(packet) = Packet::parse_local(&bytes) {
                    self.receive_segment(&packet, Via::Local, true, host);
                }
                self.phy.loopback.recycle(bytes);
                continue;
            }
            let Some(slot) = self.dirty.pop_front() else { return true };
            self.serve(slot, link, host);
        }
        self.dirty.is_empty() && self.phy.loopback.is_empty()
    }

    /// Transmits what a socket has to send.
    fn serve(&mut self, slot: u32, link: &mut dyn Link, host: &mut dyn Host) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.is_dirty = false;
        let is_blocked = match &socket.state {
            SocketState::Connection(_) => self.transmit(slot, link, host),
            SocketState::Udp(_) => self.unblock(slot, link, host),
            SocketState::Idle | SocketState::Listener(_) => false,
        };
        // Without memory for the list, the socket is queued again.
        if is_blocked && self.blocked.try_reserve(1).map(|()| self.blocked.push(slot)).is_err() {
            self.mark(slot);
        }
    }

    /// Serves the sockets that wait for room in the transmit queue of the device or of the loopback.
    fn unblock_all(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let mut blocked: Vec<u32> = core::mem::take(&mut self.blocked);
        for slot in blocked.drain(..) {
            let is_connection = self.sockets.get(slot).and_then(Socket::connection).is_some();
            if is_connection {
                self.mark(slot);
            } else if self.unblock(slot, link, host) {
                self.blocked.push(slot);
            }
        }
        if self.blocked.is_empty() {
            self.blocked = blocked;
        }
    }

    /// Whether nothing is queued for transmission.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.phy.loopback.is_empty() && self.phy.outbox.is_empty()
    }

    /// Whether all data sent on connections is acknowledged, and all other frames are passed to the device, except
    /// those to neighbors that do not answer.
    ///
    /// All sockets are closed, so a socket whose data has been delivered gets no new data, and is not checked again.
    pub(crate) fn is_delivered(&mut self) -> bool {
        let is_waiting =
            !self.blocked.is_empty() || !self.corked.is_empty() || self.ip.neighbors.has_frames();
        if !self.is_settled() || is_waiting {
            return false;
        }
        while usize::try_from(self.delivered).is_ok_and(|slot| slot < self.sockets.slots()) {
            self.visit();
            let connection = self.sockets.get(self.delivered).and_then(Socket::connection);
            if connection.is_some_and(Connection::is_undelivered) {
                return false;
            }
            self.delivered += 1;
        }
        true
    }

    /// Whether sockets wait for room in the transmit queue of the device or of the loopback.
    fn is_waiting(&self) -> bool {
        !self.blocked.is_empty() || !self.phy.outbox.is_empty()
    }

    /// Time of the next timer.
    pub(crate) fn next(&self, is_more: bool) -> Option<u64> {
        let now = self.now;
        // Runs in every call. As an iterator over an array of deadlines it took 143 instructions.
        let mut next = if is_more { now } else { NEVER };
        if self.is_waiting() {
            // The interval is the time for which the queue has been full already, so it doubles each time.
            let stuck = now.saturating_sub(self.stuck_since.unwrap_or(now));
            next = next.min(now.saturating_add(stuck.clamp(FULL, STUCK)));
        }
        if !self.tcp.deferred.is_empty() {
            next = next.min(now.saturating_add(RETRY_INTERVAL));
        }
        next = next.min(self.timers.next().unwrap_or(NEVER));
        next = next.min(self.ip.next());
        (next != NEVER).then_some(next)
    }
}
