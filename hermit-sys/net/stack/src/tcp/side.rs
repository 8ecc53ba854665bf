//! smoltcp's view of each way out.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::DeviceCapabilities;
use smoltcp::time::Instant;
use smoltcp::wire::HardwareAddress;

use crate::core::instant;
use crate::hardware::{HardwareInfo, IpVersion, LEAST_MTU};
use crate::wire::device::{self, Ingress};
use crate::wire::emit;

/// The largest packet from this host to itself.
const LOCAL_MTU: u16 = 65_535;

/// The way a connection's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// They stay on this host.
    Local,
    /// Through the device, as those of this version.
    Wire(IpVersion),
}

impl Path {
    /// The way to an address.
    pub(crate) const fn to(address: &IpAddr, is_local: bool) -> Self {
        match address {
            _ if is_local => Self::Local,
            IpAddr::V4(_) => Self::Wire(IpVersion::V4),
            IpAddr::V6(_) => Self::Wire(IpVersion::V6),
        }
    }
}

/// smoltcp's view of one way out: the device, or this host itself.
pub(crate) struct Side {
    pub(crate) interface: Interface,
    pub(crate) capabilities: DeviceCapabilities,
    pub(crate) fills_checksums: bool,
    /// The largest packet in truth. smoltcp drops larger ones of IPv6 even if the device cuts them, unless it is
    /// told that there is room for them.
    pub(crate) mtu: usize,
    /// The most bytes of a packet that is given to the device.
    pub(crate) most: usize,
}

impl fmt::Debug for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Side").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

fn interface(capabilities: &DeviceCapabilities, seed: u64, now: Instant) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut nothing = Ingress { packet: None, reply: &mut Vec::new(), capabilities };
    let mut interface = Interface::new(config, &mut nothing, now);
    // Whose packets are for us has been decided before smoltcp sees them.
    interface.set_any_ip(true);
    interface
}

impl Side {
    /// The way to itself: checksums would be computed and verified by the same host.
    pub(crate) fn local(seed: u64, now: u64) -> Self {
        let capabilities = device::without_tcp_checksums(device::ip_capabilities(LOCAL_MTU));
        let mtu = usize::from(LOCAL_MTU);
        let interface = interface(&capabilities, seed, instant(now));
        Self { interface, capabilities, fills_checksums: false, mtu, most: mtu }
    }

    /// The way through a device.
    pub(crate) fn wire(info: &HardwareInfo, version: IpVersion, seed: u64, now: u64) -> Self {
        let mtu = info.mtu.max(LEAST_MTU);
        let mut capabilities = device::ip_capabilities(mtu);
        if info.fills_checksums {
            capabilities = device::without_tcp_checksums(capabilities);
            let segments = if version == IpVersion::V4 { info.segments_v4 } else { info.segments_v6 };
            if let Some(frame) = segments {
                capabilities = device::with_segmentation(capabilities, version, frame);
            }
        }
        let segmented = [capabilities.segmentation.tcpv4, capabilities.segmentation.tcpv6];
        let most = segmented.into_iter().flatten().map(core::num::NonZero::get).max();
        let mtu = usize::from(mtu);
        let interface = interface(&capabilities, seed, instant(now));
        let fills_checksums = info.fills_checksums;
        Self { interface, capabilities, fills_checksums, mtu, most: most.unwrap_or(mtu).max(mtu) }
    }

    /// Makes the next random number of smoltcp's one that nobody can guess from those before: a sequence number
    /// (RFC 6528). smoltcp's generator is not made for that, and cannot be seeded but at the start; an interface for
    /// packets of IP remembers nothing else.
    pub(crate) fn reseed(&mut self, seed: u64, now: Instant) {
        self.interface = interface(&self.capabilities, seed, now);
    }

    /// Bytes of data in a full segment from or to an address.
    pub(crate) const fn segment(&self, address: &IpAddr) -> usize {
        self.mtu - emit::ip_header(address) - emit::TCP
    }

    /// What peers are told to send at most in a segment, if smoltcp would tell more.
    pub(crate) fn announced(&self, address: &IpAddr) -> Option<u16> {
        let has_lied = self.capabilities.max_transmission_unit > self.mtu;
        has_lied.then(|| u16::try_from(self.segment(address)).unwrap_or(u16::MAX))
    }

    /// Gives a packet to the sockets of a set. `reply` is empty then, or the answer.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        packet: &[u8],
        set: &mut SocketSet<'_>,
        reply: &mut Vec<u8>,
    ) {
        reply.clear();
        let mut device = Ingress { packet: Some(packet), reply, capabilities: &self.capabilities };
        self.interface.poll_ingress_single(now, &mut device, set);
    }
}
