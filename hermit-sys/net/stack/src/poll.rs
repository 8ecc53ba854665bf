//! One poll: receive frames, handle expired timers, transmit, wake.
//!
//! The kernel polls after each call on a socket, when the device has received or sent frames, and at the time
//! of the next timer. A poll without work returns early. The work of one poll is bounded, so that the lock
//! around the stack is not held for long: if some work is left, the poll returns the present time, and the
//! kernel polls again.

use hermit_interface::Errno;
use smoltcp::wire::IpProtocol;

use crate::host::{Host, Random};
use crate::ip::config::SmoltcpSocket;
use crate::ip::delivery::{Delivery, Quoted, Received};
use crate::ip::sources::{DHCP_CLIENT, DHCP_SERVER};
use crate::layers::Layers;
use crate::phy::device::{NetDevice, ReceivedInfo};
use crate::phy::tx_queue::{DeviceLink, Link};
use crate::socket::address::Endpoint;
use crate::socket::context::Context;
use crate::wire::packet::Packet;

/// Maximum number of frames received in one poll.
const FRAMES: usize = 256;

/// Interval in nanoseconds at which a full transmit queue is polled again: the first one, and the maximum.
/// Most devices interrupt when there is room, but not all. Without an interrupt, a bulk sender waits only for
/// this retry, so the first interval is short. The interval doubles while the queue stays full.
const FULL: u64 = 50_000;
const STUCK: u64 = 10_000_000;

/// A time that is never reached.
const NEVER: u64 = u64::MAX;

impl Layers {
    /// Polls; returns the time of the next timer.
    pub(crate) fn poll<H: NetDevice>(
        &mut self,
        device: &mut Option<H>,
        host: &mut impl Host,
        now: u64,
    ) -> Option<u64> {
        self.now = self.now.max(now);
        // Records of TIME-WAIT that have expired since the last poll must not answer the segments received
        // now.
        self.tcp.expire_time_wait(&mut self.tcp_ports, self.buffers.pool(), self.now);
        let is_crowded = self.receive_frames(device, host);
        if !is_crowded {
            self.phy.caught_up = self.now;
        }
        let next = self.next(false);
        // Fast path: nothing to transmit and no timer.
        if !is_crowded && self.is_quiet() && next.is_none_or(|next| next > self.now) {
            self.stuck_since = None;
            self.wake(host);
            return next;
        }
        let mut link = DeviceLink::new(device);
        let queued = self.tcp.received_locally();
        let is_done = self.transmit(&mut link, host);
        let has_moved = link.has_taken || self.tcp.received_locally() != queued;
        // The retry interval grows with the time in which no frame and no loopback segment has moved.
        self.stuck_since =
            self.is_waiting().then(|| self.stuck_since.filter(|_| !has_moved).unwrap_or(self.now));
        self.wake(host);
        self.next(is_crowded || !is_done)
    }

    /// Receives frames; returns true if there may be more.
    fn receive_frames<H: NetDevice>(&mut self, device: &mut Option<H>, random: &mut dyn Random) -> bool {
        let Some(device) = device else { return false };
        for _ in 0..FRAMES {
            if device.receive(|frame, info| self.receive_frame(frame, info, random)).is_none() {
                return false;
            }
        }
        true
    }

    /// Receives a frame. The depth of the call stack does not depend on the frame's contents: a reassembled
    /// packet is not reassembled again.
    fn receive_frame(&mut self, bytes: &[u8], info: ReceivedInfo, random: &mut dyn Random) {
        match self.ip.receive(bytes, info, (&mut self.phy, self.buffers.pool()), self.now) {
            Some(Received::Delivery(delivery)) => self.deliver(bytes, delivery, random),
            Some(Received::Reassembled(whole)) => {
                if let Some(delivery) = self.ip.receive_reassembled(&whole, &mut self.phy, self.now) {
                    self.deliver(&whole, delivery, random);
                }
            }
            None => (),
        }
    }

    /// Passes the contents of a frame to the layer above.
    fn deliver(&mut self, bytes: &[u8], delivery: Delivery<'_>, random: &mut dyn Random) {
        let (tcp, _, mut context) = self.split(random);
        match delivery {
            Delivery::Segment { packet, via, is_checked } => {
                tcp.receive(&packet, via, is_checked, &mut context);
            }
            Delivery::Datagram { packet, is_checked } => {
                self.receive_datagram(bytes, &packet, is_checked, random);
            }
            Delivery::Resolved(connections) => tcp.resume(connections),
            Delivery::Error(quoted, error) => self.handle_icmp_error(&quoted, error, random),
            Delivery::PathMtu(quoted, mtu) => tcp.shrink_path(&quoted, mtu),
        }
    }

    /// Passes a datagram to a UDP socket or the DHCP client, or answers it with an ICMP error.
    fn receive_datagram(
        &mut self,
        bytes: &[u8],
        packet: &Packet<'_>,
        is_checked: bool,
        random: &mut dyn Random,
    ) {
        let Some(datagram) = packet.udp(is_checked) else { return };
        let (from, to) = (datagram.src_port(), datagram.dst_port());
        let (_, udp, mut context) = self.split(random);
        if from == DHCP_SERVER && to == DHCP_CLIENT && udp.ports.bindings(to).is_empty() {
            let Context { ip, phy, now, .. } = context;
            return ip.pass_to_smoltcp(bytes, SmoltcpSocket::Dhcp, phy, now);
        }
        if !context.ip.is_received_here(packet.destination) || udp.receive(packet, is_checked, &mut context) {
            return;
        }
        context.ip.refuse(bytes, context.phy, context.now);
    }

    /// Handles an ICMP error about a sent packet.
    fn handle_icmp_error(&mut self, quoted: &Quoted<'_>, error: Errno, random: &mut dyn Random) {
        let (tcp, udp, mut context) = self.split(random);
        match quoted.protocol {
            IpProtocol::Udp if matches!(error, Errno::ECONNREFUSED | Errno::ENOPROTOOPT) => {
                let [local, remote] =
                    [quoted.local, quoted.remote].map(|(address, port)| Endpoint::new(address, port));
                udp.refuse(local, remote, error);
            }
            IpProtocol::Tcp => tcp.handle_icmp_error(quoted, error, &mut context),
            _ => (),
        }
    }

    /// Handles expired timers, transmits, and receives loopback segments; returns true if nothing is left.
    fn transmit(&mut self, link: &mut dyn Link, random: &mut dyn Random) -> bool {
        let (tcp, udp, mut context) = self.split(random);
        tcp.admit_deferred(&mut context);
        // Queued answers are sent before segments of connections.
        context.phy.flush(link);
        tcp.resume_held();
        udp.unblock_all(context.phy, link);
        tcp.run_timers(&mut context);
        context.ip.expire_fragments(context.buffers.pool(), context.now);
        while let Some(connections) = context.ip.run_timers(context.phy, link, context.now) {
            tcp.give_up(connections, &mut context);
        }
        self.poll_configuration(link);
        let (tcp, _, mut context) = self.split(random);
        tcp.work(link, &mut context)
    }

    /// Polls the clients that configure the host.
    #[inline]
    fn poll_configuration(&mut self, link: &mut dyn Link) {
        let Self { ip, dns, now, .. } = self;
        let Some(config) = ip.config.as_mut().filter(|config| config.next <= *now) else { return };
        if let Some(lease) = config.poll(*now, link) {
            dns.apply(lease);
        }
        ip.learn_addresses();
    }

    /// Wakes the waiters of all sockets with events, and writers for which there is memory again.
    #[inline]
    pub(crate) fn wake(&mut self, host: &mut impl Host) {
        let has_events = self.tcp.has_events() || self.udp.sockets.has_events();
        if has_events || self.buffers.may_resume() {
            self.wake_all(host);
        }
    }

    /// Wakes only the writers that wait for memory. Called after received data has been read, which frees its
    /// memory.
    #[inline]
    pub(crate) fn wake_writers(&mut self, host: &mut impl Host) {
        if self.buffers.may_resume() {
            self.wake_all(host);
        }
    }

    // Not inlined, so that `wake` is inlined: its conditions are false most of the time.
    #[inline(never)]
    fn wake_all(&mut self, host: &mut impl Host) {
        let Self { tcp, udp, buffers, .. } = self;
        if buffers.may_resume() {
            tcp.resume_writers(buffers);
        }
        let mut take = || tcp.take_event().or_else(|| udp.sockets.take_event());
        while let Some(waker_key) = take() {
            host.wake(waker_key);
        }
    }

    /// True if nothing is queued for transmission.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.tcp.is_settled() && self.phy.outbox.is_empty()
    }

    /// True if nothing is queued or held back.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.is_settled() && !self.udp.is_waiting() && !self.tcp.is_held()
    }

    /// True if all data sent on connections is acknowledged, and all other frames are passed to the device.
    /// Frames to neighbors that have not answered the first solicitation do not count.
    pub(crate) fn is_delivered(&mut self) -> bool {
        let is_queued =
            !self.is_settled() || self.udp.is_waiting() || self.ip.neighbors.may_send_frames(self.now);
        !is_queued && self.tcp.is_delivered()
    }

    /// True if sockets wait for room in the transmit queue of the device or of the loopback.
    fn is_waiting(&self) -> bool {
        self.tcp.is_waiting() || self.udp.is_waiting() || !self.phy.outbox.is_empty()
    }

    /// Time of the next timer.
    pub(crate) fn next(&self, is_more: bool) -> Option<u64> {
        let now = self.now;
        // Runs in every call, so the deadlines are compared one by one: an iterator over them is slower.
        let mut next = if is_more { now } else { NEVER };
        if self.is_waiting() {
            // The interval is the time for which the queue has been full so far, so it doubles each time.
            let stuck = now.saturating_sub(self.stuck_since.unwrap_or(now));
            next = next.min(now.saturating_add(stuck.clamp(FULL, STUCK)));
        }
        next = next.min(self.tcp.next(now)).min(self.ip.next());
        (next != NEVER).then_some(next)
    }
}
