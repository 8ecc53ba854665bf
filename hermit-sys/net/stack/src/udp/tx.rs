//! TX of datagrams.
//!
//! A datagram is sent at once: there is no send queue. A datagram to this host is delivered directly to the
//! receiving socket. A datagram to a group is delivered to its members on this host, sent to the device, or
//! both. A datagram to a neighbor is sent to the device, in several fragments if it exceeds the MTU, or waits
//! until the MAC address is resolved. If the device has no room, the call fails with `EAGAIN` and the socket
//! waits for room.

use core::net::IpAddr;

use hermit_base::try_alloc::try_vec;
use hermit_interface::Errno;
use smoltcp::wire::{EthernetAddress, IpProtocol};

use crate::ip::groups::Interface;
use crate::ip::routes::{Route, Routes, or_loopback};
use crate::phy::NetInterface;
use crate::phy::device::Offload;
use crate::phy::tx_queue::Link;
use crate::socket::address::Endpoint;
use crate::socket::context::Context;
use crate::socket::options::SocketSettings;
use crate::udp::layer::Udp;
use crate::wire::emit::{self, ETHERNET, EthernetHeader, IpHeader, UDP};
use crate::wire::fragments;

/// Maximum size of a datagram in bytes. The packet's 16-bit length field includes the IP header in IPv4, but
/// not in IPv6.
const fn largest(to: IpAddr) -> usize {
    if to.is_ipv4() { 65_507 } else { 65_527 }
}

/// Size in bytes of the fragment header of IPv6 (RFC 8200, section 4.5).
const FRAGMENT: usize = 8;

/// A datagram with a resolved route.
struct Outgoing<'a> {
    from: Endpoint,
    to: Endpoint,
    route: Route,
    payload: &'a [u8],
    hop_limit: u8,
    class: u8,
}

impl Outgoing<'_> {
    fn header(&self, protocol: IpProtocol, size: usize) -> IpHeader {
        let (source, destination) = (self.from.address, self.to.address);
        IpHeader { source, destination, protocol, size, hop_limit: self.hop_limit, class: self.class }
    }

    fn write_datagram(&self, bytes: &mut [u8]) {
        let (from, to) = ((self.from.address, self.from.port), (self.to.address, self.to.port));
        emit::udp(bytes, from, to, self.payload);
    }

    /// Writes the headers of the datagram or of a fragment, and returns the rest of the buffer for the
    /// payload.
    fn write_part<'a>(
        &self,
        bytes: &'a mut [u8],
        size: usize,
        identification: u32,
        part: Option<(u16, bool)>,
    ) -> &'a mut [u8] {
        let (offset, is_last) = part.unwrap_or((0, true));
        if self.to.address.is_ipv4() {
            let header = self.header(IpProtocol::Udp, size);
            header.write(bytes);
            let [_, _, high, low] = identification.to_be_bytes();
            IpHeader::write_fragment_v4(bytes, u16::from_be_bytes([high, low]), offset, is_last);
            &mut bytes[header.size()..]
        } else if part.is_none() {
            self.header(IpProtocol::Udp, size).write(bytes)
        } else {
            let rest = self.header(IpProtocol::Ipv6Frag, size + FRAGMENT).write(bytes);
            let (head, state) = rest.split_at_mut(FRAGMENT);
            emit::fragment_v6(head, IpProtocol::Udp, identification, offset, is_last);
            state
        }
    }

    fn size(&self) -> usize {
        UDP + self.payload.len()
    }
}

/// Next hop of a datagram: its address, and its MAC address if it is resolved.
#[derive(Clone, Copy)]
struct NextHop {
    address: IpAddr,
    mac: Option<EthernetAddress>,
}

impl Udp {
    /// Returns the source address and the route of a datagram.
    ///
    /// # Errors
    ///
    /// `EACCES`: broadcast without `SO_BROADCAST`. `ENETUNREACH`: no route, or IPv4 on an IPv6-only socket.
    /// `EINVAL`: a loopback source address to another host.
    pub(super) fn route(
        settings: &SocketSettings,
        local: IpAddr,
        to: IpAddr,
        routes: &Routes,
    ) -> Result<(IpAddr, Route), Errno> {
        if settings.only_v6 && to.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        let is_one = !local.is_unspecified() && !local.is_multicast() && !routes.is_broadcast(local);
        let source = if is_one { Some(local) } else { routes.source(to) };
        let source = source.filter(|source| source.is_ipv4() == to.is_ipv4()).ok_or(Errno::ENETUNREACH)?;
        let route = routes.route_from(source, to).ok_or(Errno::ENETUNREACH)?;
        if source.is_loopback() && route != Route::Local {
            return Err(Errno::EINVAL);
        }
        if routes.is_broadcast(to) && !settings.broadcast {
            return Err(Errno::EACCES);
        }
        Ok((source, route))
    }

    /// Sends a datagram.
    ///
    /// # Errors
    ///
    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send(
        &mut self,
        slot: u32,
        payload: &[u8],
        to: Option<Endpoint>,
        link: &mut dyn Link,
        context: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let socket = self.socket(slot)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (settings, local, state) = (socket.settings, socket.local, &socket.state);
        if state.shut_write {
            return Err(Errno::EPIPE);
        }
        let source = state.source;
        let to = to.or(state.remote).ok_or(Errno::EDESTADDRREQ)?;
        let to = Endpoint::new(or_loopback(to.address), to.port);
        if payload.len() > largest(to.address) {
            return Err(Errno::EMSGSIZE);
        }
        if to.port == 0 {
            return Err(Errno::EINVAL);
        }
        let local = source.filter(|source| source.is_ipv4() == to.address.is_ipv4()).unwrap_or(local.address);
        let (source, route) = Self::route(&settings, local, to.address, &context.ip.routes)?;
        let from = Endpoint::new(source, self.bind_ephemeral(slot, context)?.port);
        let (hop_limit, class) = (hops(&settings, to.address), settings.class);
        let outgoing = Outgoing { from, to, route, payload, hop_limit, class };
        self.transmit(slot, &outgoing, &settings, link, context)?;
        Ok(payload.len())
    }

    fn transmit(
        &mut self,
        slot: u32,
        outgoing: &Outgoing<'_>,
        settings: &SocketSettings,
        link: &mut dyn Link,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let (from, to) = (outgoing.from, outgoing.to);
        match outgoing.route {
            Route::Local => {
                let is_heard = !to.address.is_multicast()
                    || context.ip.groups.has_members(to.address, Interface::Loopback);
                if is_heard && !self.deliver_to_sockets(from, to, outgoing.payload, context) {
                    self.refuse(from, to, Errno::ECONNREFUSED);
                }
            }
            Route::Group(mac) => {
                let is_looped = match to.address {
                    IpAddr::V4(address) if !address.is_multicast() => true,
                    IpAddr::V4(_) => settings.multicast_loop_v4,
                    IpAddr::V6(_) => settings.multicast_loop_v6,
                };
                // A multicast datagram with hop limit 0 does not leave the host.
                if outgoing.hop_limit > 0 {
                    let hop = NextHop { address: to.address, mac: Some(mac) };
                    self.transmit_to(slot, outgoing, hop, link, context)?;
                }
                if is_looped && context.ip.is_received_here(to.address) {
                    self.deliver_to_sockets(from, to, outgoing.payload, context);
                }
            }
            Route::Neighbor(address) => {
                let mac = context.ip.resolve(address, context.phy, link, context.now);
                self.transmit_to(slot, outgoing, NextHop { address, mac }, link, context)?;
            }
        }
        Ok(())
    }

    /// Sends a datagram to a neighbor, in fragments if it exceeds the MTU, or queues it until the MAC address
    /// is resolved.
    fn transmit_to(
        &mut self,
        slot: u32,
        outgoing: &Outgoing<'_>,
        hop: NextHop,
        link: &mut dyn Link,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let Some(interface) = context.phy.interface else { return Err(Errno::ENETUNREACH) };
        let header = emit::ip_header(&outgoing.to.address);
        let room = usize::from(interface.info.mtu).saturating_sub(header);
        let count = outgoing.size().div_ceil(room.max(1));
        if hop.mac.is_some() && !(link.can_transmit(ETHERNET + header + room.min(outgoing.size()))) {
            // `unblock_all` wakes the waiters when there is room again.
            self.block(slot);
            return Err(Errno::EAGAIN);
        }
        let ethernet = EthernetHeader {
            source: interface.mac,
            destination: hop.mac.unwrap_or_default(),
            protocol: EthernetHeader::protocol(&outgoing.to.address),
        };
        if count > 1 {
            return transmit_parts(interface, outgoing, hop, ethernet, link, context);
        }
        let size = ETHERNET + header + outgoing.size();
        // In IPv4, routers may fragment the packet.
        let (from, to) = (outgoing.from.address, outgoing.to.address);
        let identification = if to.is_ipv4() { context.ip.next_identification(from, to) } else { 0 };
        transmit_frame(hop, size, link, context, &mut |bytes| {
            // DF is clear, because UDP sockets do not handle path MTU discovery.
            let rest = outgoing.write_part(ethernet.write(bytes), outgoing.size(), identification, None);
            outgoing.write_datagram(rest);
        })
    }
}

/// Sends the fragments of a datagram.
fn transmit_parts(
    interface: NetInterface,
    outgoing: &Outgoing<'_>,
    hop: NextHop,
    ethernet: EthernetHeader,
    link: &mut dyn Link,
    context: &mut Context<'_>,
) -> Result<(), Errno> {
    let extra = if outgoing.to.address.is_ipv4() { 0 } else { FRAGMENT };
    let header = emit::ip_header(&outgoing.to.address) + extra;
    let room = usize::from(interface.info.mtu).saturating_sub(header);
    let mut whole = try_vec(0, outgoing.size())?;
    outgoing.write_datagram(&mut whole);
    let identification = context.ip.next_identification(outgoing.from.address, outgoing.to.address);
    for (start, end, is_last) in fragments::parts(whole.len(), room) {
        let part = whole.get(start..end).unwrap_or(&[]);
        let offset = u16::try_from(start).unwrap_or(u16::MAX);
        transmit_frame(hop, ETHERNET + header + part.len(), link, context, &mut |bytes| {
            let rest = ethernet.write(bytes);
            let state = outgoing.write_part(rest, part.len(), identification, Some((offset, is_last)));
            state.copy_from_slice(part);
        })?;
    }
    Ok(())
}

/// Queues a frame for the device, or until its next hop is resolved. Drops the frame if the device's queue
/// has no room, which may happen to a fragment after the first one.
fn transmit_frame(
    hop: NextHop,
    size: usize,
    link: &mut dyn Link,
    context: &mut Context<'_>,
    write: &mut dyn FnMut(&mut [u8]),
) -> Result<(), Errno> {
    if hop.mac.is_some() {
        if link.can_transmit(size) {
            link.transmit(size, Offload::default(), write);
        }
        return Ok(());
    }
    let mut frame = try_vec(0, size)?;
    write(&mut frame);
    context.ip.await_frame(hop.address, frame, context.phy, link, context.now);
    Ok(())
}

/// Hop limit of a datagram.
fn hops(settings: &SocketSettings, to: IpAddr) -> u8 {
    match to {
        IpAddr::V4(address) if address.is_multicast() => settings.multicast_ttl,
        IpAddr::V6(address) if address.is_multicast() => settings.multicast_hops,
        address => settings.hops(address.is_ipv4()),
    }
}
