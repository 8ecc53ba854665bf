//! Egress: resolution of the next hop.

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::wire::EthernetAddress;

use crate::ip::layer::Ip;
use crate::ip::neighbors::{Answer, Due, Waited};
use crate::phy::Phy;
use crate::phy::device::Offload;
use crate::phy::tx_queue::Link;
use crate::wire::emit;

impl Ip {
    /// Returns the MAC address of a neighbor; `None` if it is unknown. A stale neighbor is probed.
    pub(crate) fn resolve(
        &mut self,
        hop: IpAddr,
        phy: &Phy,
        link: &mut dyn Link,
        now: u64,
    ) -> Option<EthernetAddress> {
        match self.neighbors.lookup(hop, now) {
            Answer::Known(mac) => Some(mac),
            Answer::Ask(mac) => {
                self.solicit(hop, Some(mac), phy, link);
                Some(mac)
            }
            Answer::Unknown => None,
        }
    }

    /// Queues a connection until a neighbor is resolved.
    /// [`Delivery::Resolved`](crate::ip::delivery::Delivery::Resolved) or [`run_timers`](Self::run_timers)
    /// later returns the connection.
    pub(crate) fn await_connection(
        &mut self,
        hop: IpAddr,
        slot: u32,
        phy: &Phy,
        link: &mut dyn Link,
        now: u64,
    ) {
        if self.neighbors.await_connection(hop, slot, now) {
            self.solicit(hop, None, phy, link);
        }
    }

    /// Queues a frame until a neighbor is resolved. The frame is complete except for the destination MAC
    /// address.
    pub(crate) fn await_frame(
        &mut self,
        hop: IpAddr,
        frame: Vec<u8>,
        phy: &Phy,
        link: &mut dyn Link,
        now: u64,
    ) {
        if self.neighbors.await_frame(hop, frame, now) {
            self.solicit(hop, None, phy, link);
        }
    }

    /// Sends an ARP request or a neighbor solicitation. The frame is unicast if the MAC address is `known`.
    fn solicit(&self, target: IpAddr, known: Option<EthernetAddress>, phy: &Phy, link: &mut dyn Link) {
        let (Some(source), Some(interface)) = (self.routes.source(target), phy.interface) else { return };
        let size = emit::solicitation_size(&target);
        if link.can_transmit(size) {
            let mut fill = |bytes: &mut [u8]| emit::solicitation(bytes, interface.mac, source, target, known);
            link.transmit(size, Offload::default(), &mut fill);
        }
    }

    /// Repeats solicitations that are due. If a neighbor has not answered, drops the frames and returns the
    /// connections that waited for it.
    pub(crate) fn run_timers(&mut self, phy: &Phy, link: &mut dyn Link, now: u64) -> Option<Vec<u32>> {
        loop {
            match self.neighbors.due(now)? {
                Due::Ask(address) => self.solicit(address, None, phy, link),
                Due::GiveUp(Waited { connections, .. }) => return Some(connections),
            }
        }
    }
}
