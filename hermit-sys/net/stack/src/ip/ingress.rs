//! Ingress: checks received frames, handles frames of this layer, and returns the rest for the layers above.
//!
//! A frame must be addressed to this host or to a group. ARP updates the neighbor table. An IP packet must
//! have a valid source address, and fragments are reassembled. TCP segments and UDP datagrams are returned as
//! a [`Delivery`]. ICMP errors about sent packets are returned as deliveries, too. Neighbor discovery updates
//! the neighbor table. smoltcp answers ARP requests, solicitations and pings: its replies go to the outbox of
//! the device.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::RangeInclusive;

use hermit_tcp::Pool;
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, IpProtocol};

use crate::ip::config::SmoltcpSocket;
use crate::ip::delivery::{Delivery, Received, Via};
use crate::ip::groups::Interface;
use crate::ip::layer::Ip;
use crate::ip::neighbors::{Advert, Waited};
use crate::ip::sources::{is_no_source, is_unicast};
use crate::phy::Phy;
use crate::phy::device::ReceivedInfo;
use crate::wire::emit::{self, EthernetHeader};
use crate::wire::packet::{Frame, Packet};

/// Types of neighbor discovery's messages (RFC 4861, section 4).
const NDISC: RangeInclusive<u8> = 133..=137;

impl Ip {
    /// Receives a frame from the device. Returns its contents if they are for a layer above.
    pub(crate) fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        info: ReceivedInfo,
        (phy, pool): (&mut Phy, &mut Pool),
        now: u64,
    ) -> Option<Received<'a>> {
        let (frame, interface) = (Frame::parse(bytes)?, phy.interface?);
        let is_for_us = frame.destination == interface.mac || frame.is_to_group();
        if !is_for_us || frame.source.0[0] & 1 == 1 {
            return None;
        }
        match frame.protocol {
            EthernetProtocol::Arp => self.receive_arp(bytes, frame.payload, phy, now).map(Received::Delivery),
            EthernetProtocol::Ipv6 if !interface.info.carries_v6() => None,
            EthernetProtocol::Ipv4 | EthernetProtocol::Ipv6 => {
                let packet = self.parse(&frame)?;
                if packet.fragment.is_some() {
                    return self.reassemble(&frame, &packet, pool, now).map(Received::Reassembled);
                }
                let delivery = self.dispatch(bytes, &frame, packet, info.checksum_good, (phy, now));
                delivery.map(Received::Delivery)
            }
            EthernetProtocol::Unknown(_) => None,
        }
    }

    /// Receives a frame with a reassembled packet. A fragment in it is dropped: packets are reassembled only
    /// once.
    pub(crate) fn receive_reassembled<'a>(
        &mut self,
        bytes: &'a [u8],
        phy: &mut Phy,
        now: u64,
    ) -> Option<Delivery<'a>> {
        let frame = Frame::parse(bytes)?;
        let packet = self.parse(&frame).filter(|packet| packet.fragment.is_none())?;
        // Neighbor discovery is not fragmented: filters in switches do not reassemble (RFC 6980, section 5).
        let is_ndisc = packet.protocol == IpProtocol::Icmpv6
            && packet.payload.first().is_some_and(|kind| NDISC.contains(kind));
        if is_ndisc {
            return None;
        }
        self.dispatch(bytes, &frame, packet, false, (phy, now))
    }

    /// Parses the packet in a frame; `None` if its addresses are invalid.
    fn parse<'a>(&self, frame: &Frame<'a>) -> Option<Packet<'a>> {
        let packet = Packet::parse(frame.payload)?;
        // Martians: no other host has the addresses of this host or of the loopback. An answer would go to
        // this host itself.
        let is_impossible = self.routes.is_own(packet.source) || self.routes.is_broadcast(packet.source);
        let is_dropped = is_impossible || is_no_source(&packet) || packet.destination.is_loopback();
        (!is_dropped).then_some(packet)
    }

    /// Adds a fragment. Returns the frame with the whole packet if this fragment was the last one missing.
    fn reassemble(
        &mut self,
        frame: &Frame<'_>,
        packet: &Packet<'_>,
        pool: &mut Pool,
        now: u64,
    ) -> Option<Vec<u8>> {
        if !self.is_received_here(packet.destination) {
            return None;
        }
        let &Frame { source, destination, protocol, .. } = frame;
        self.fragments.add(EthernetHeader { source, destination, protocol }, packet, pool, now)
    }

    /// Drops packets whose fragments have not all arrived in time.
    pub(crate) fn expire_fragments(&mut self, pool: &mut Pool, now: u64) {
        self.fragments.expire(pool, now);
    }

    /// True if this host receives packets to an address: it is an own, broadcast or joined multicast address.
    pub(crate) fn is_received_here(&self, address: IpAddr) -> bool {
        let is_joined = || {
            address.is_multicast()
                && (self.groups.has_members(address, Interface::Device)
                    || self.config.as_ref().is_some_and(|config| config.has_group(address)))
        };
        self.routes.is_own(address) || self.routes.is_broadcast(address) || is_joined()
    }

    /// Dispatches a packet by its protocol.
    fn dispatch<'a>(
        &mut self,
        bytes: &[u8],
        frame: &Frame<'a>,
        packet: Packet<'a>,
        is_checked: bool,
        (phy, now): (&mut Phy, u64),
    ) -> Option<Delivery<'a>> {
        let (source, is_icmp) =
            (frame.source, matches!(packet.protocol, IpProtocol::Icmp | IpProtocol::Icmpv6));
        // All hosts receive a frame to a group. If the packet in it is for a single address, it is dropped,
        // so that no host answers (RFC 1122, section 3.3.6). Pings are answered, as in Linux.
        if frame.is_to_group() && !is_icmp && self.routes.is_own(packet.destination) {
            return None;
        }
        match packet.protocol {
            IpProtocol::Tcp if !self.routes.is_own(packet.destination) => None,
            IpProtocol::Tcp => Some(Delivery::Segment { packet, via: Via::Wire(source), is_checked }),
            IpProtocol::Udp => Some(Delivery::Datagram { packet, is_checked }),
            IpProtocol::Icmp | IpProtocol::Icmpv6 => {
                let delivery = self.handle_icmp(&packet, source, phy, now);
                // An answer must fit into one frame, and a broadcast must not cause many answers.
                let is_asked_alone = packet.destination.is_ipv6() || self.routes.is_own(packet.destination);
                if packet.bytes.len() <= phy.mtu() && is_asked_alone {
                    self.pass_to_smoltcp(bytes, SmoltcpSocket::None, phy, now);
                }
                delivery
            }
            IpProtocol::Igmp => {
                self.start_fast_poll(now);
                self.pass_to_smoltcp(bytes, SmoltcpSocket::None, phy, now);
                None
            }
            // A packet to a group must not cause many answers (RFC 1122, section 3.2.2; RFC 4443, section
            // 2.4).
            _ if !self.routes.is_own(packet.destination) => None,
            _ => {
                self.refuse(bytes, phy, now);
                None
            }
        }
    }

    /// Sends an ICMP error about a packet that no layer above accepts, within the rate limit.
    pub(crate) fn refuse(&mut self, bytes: &[u8], phy: &mut Phy, now: u64) {
        if self.icmp_limiter.take(now) {
            self.pass_to_smoltcp(bytes, SmoltcpSocket::None, phy, now);
        }
    }

    /// Passes a frame to a socket of smoltcp, and queues its answer.
    pub(crate) fn pass_to_smoltcp(&mut self, bytes: &[u8], target: SmoltcpSocket, phy: &mut Phy, now: u64) {
        let Some(config) = &mut self.config else { return };
        config.receive(now, bytes, target, &mut self.reply);
        let answer = &self.reply;
        if !answer.is_empty() {
            phy.post(answer.len(), |bytes| bytes.copy_from_slice(answer));
        }
    }

    /// Polls smoltcp often for a while.
    pub(super) fn start_fast_poll(&mut self, now: u64) {
        if let Some(config) = &mut self.config {
            config.start_fast_poll(now);
        }
    }

    /// Receives an ARP packet: learns the neighbor's MAC address, and answers requests. Returns the
    /// connections that waited for the neighbor.
    fn receive_arp<'a>(
        &mut self,
        bytes: &[u8],
        payload: &[u8],
        phy: &mut Phy,
        now: u64,
    ) -> Option<Delivery<'a>> {
        let parsed = ArpPacket::new_checked(payload).and_then(|packet| ArpRepr::parse(&packet)).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: mac,
            source_protocol_addr: source,
            target_protocol_addr: target,
            ..
        } = parsed
        else {
            return None;
        };
        if target.is_loopback() || !self.routes.is_own(target.into()) {
            return None;
        }
        let resolved = if operation == ArpOperation::Request {
            self.learn(source.into(), mac, phy, now)
        } else {
            let advert = Advert { mac: Some(mac), from: mac, is_solicited: true, is_override: true };
            self.learn_advertised(source.into(), advert, phy, now)
        };
        self.pass_to_smoltcp(bytes, SmoltcpSocket::None, phy, now);
        if operation == ArpOperation::Request && self.reply.is_empty() {
            answer_arp(target, source, mac, phy);
        }
        resolved
    }

    /// Updates the MAC address of a neighbor that asks for this host. Sends the frames and returns the
    /// connections that waited for the neighbor.
    pub(super) fn learn<'a>(
        &mut self,
        address: IpAddr,
        mac: EthernetAddress,
        phy: &mut Phy,
        now: u64,
    ) -> Option<Delivery<'a>> {
        if !mac.is_unicast() || !self.may_be_neighbor(address) {
            return None;
        }
        let waited = self.neighbors.learn(address, mac, &self.routes.gateways, now);
        resume(mac, waited, phy)
    }

    /// Handles the advertisement of a neighbor. Sends the frames and returns the connections that waited for
    /// the neighbor.
    pub(super) fn learn_advertised<'a>(
        &mut self,
        address: IpAddr,
        advert: Advert,
        phy: &mut Phy,
        now: u64,
    ) -> Option<Delivery<'a>> {
        if advert.mac.is_some_and(|mac| !mac.is_unicast()) || !self.may_be_neighbor(address) {
            return None;
        }
        let (mac, waited) = self.neighbors.advertised(address, advert, &self.routes.gateways, now)?;
        resume(mac, waited, phy)
    }

    /// True if an address may belong to a neighbor.
    fn may_be_neighbor(&self, address: IpAddr) -> bool {
        let is_beside = self.routes.is_neighbor(address) || self.routes.gateways.contains(&address);
        let is_ours = self.routes.is_own(address) || self.routes.is_broadcast(address);
        is_unicast(address) && is_beside && !is_ours
    }
}

/// Sends the frames that waited for a neighbor; returns the connections that waited.
fn resume<'a>(mac: EthernetAddress, waited: Waited, phy: &mut Phy) -> Option<Delivery<'a>> {
    for mut frame in waited.frames {
        if let Some(destination) = frame.get_mut(..6) {
            destination.copy_from_slice(&mac.0);
        }
        phy.post(frame.len(), |bytes| bytes.copy_from_slice(&frame));
    }
    (!waited.connections.is_empty()).then_some(Delivery::Resolved(waited.connections))
}

/// Answers ARP requests that smoltcp does not answer: requests from hosts outside of our networks, and
/// address probes (RFC 5227, section 2.1).
fn answer_arp(target: Ipv4Addr, source: Ipv4Addr, mac: EthernetAddress, phy: &mut Phy) {
    let Some(interface) = phy.interface else { return };
    if mac.is_unicast() && !source.is_multicast() {
        phy.post(emit::ARP, |bytes| emit::arp_answer(bytes, interface.mac, target, mac, source));
    }
}
