//! State of the IP layer.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;
use hermit_interface::net::MIN_MTU_V6;

use crate::config::Configuration;
use crate::host::Random;
use crate::ip::config::HostConfig;
use crate::ip::groups::{Groups, Membership};
use crate::ip::identification::Identifications;
use crate::ip::neighbors::Neighbors;
use crate::ip::routes::Routes;
use crate::ip::token_bucket::TokenBucket;
use crate::phy::device::NetDeviceInfo;
use crate::wire::emit::ETHERNET;
use crate::wire::fragments::Fragments;

/// Size in bytes of smoltcp's largest answer: a frame of the MTU, or an ICMP error of IPv6's minimum MTU. The
/// buffer `reply` has this size from the start: to enlarge it later could fail, and smoltcp would panic.
fn largest_reply(mtu: u16) -> usize {
    ETHERNET + usize::from(mtu.max(MIN_MTU_V6))
}

/// State of the IP layer.
#[derive(Debug)]
pub(crate) struct Ip {
    pub(crate) routes: Routes,
    pub(crate) neighbors: Neighbors,
    /// DHCP, SLAAC, and smoltcp's answers; `None` without a device.
    pub(crate) config: Option<HostConfig>,
    /// Multicast groups and their numbers of members.
    pub(crate) groups: Groups,
    pub(super) fragments: Fragments,
    /// Limits the rate of ICMP errors and of other answers to unsolicited packets.
    pub(super) icmp_limiter: TokenBucket,
    identifications: Identifications,
    /// Buffer for smoltcp's answer to a packet.
    pub(super) reply: Vec<u8>,
}

impl Ip {
    pub(crate) fn new(
        info: Option<&NetDeviceInfo>,
        random: &mut dyn Random,
        configuration: &Configuration,
        now: u64,
    ) -> Self {
        let mut ip = Self {
            routes: Routes::default(),
            neighbors: Neighbors::new(random.random()),
            config: info.map(|info| HostConfig::new(info, random.random(), configuration, now)),
            groups: Groups::new(random.random()),
            fragments: Fragments::new(random.random()),
            icmp_limiter: TokenBucket::new(now),
            identifications: Identifications::new(random),
            reply: Vec::with_capacity(info.map_or(0, |info| largest_reply(info.mtu))),
        };
        ip.learn_addresses();
        ip
    }

    /// Copies addresses and gateways from the configuration clients, if they have changed.
    pub(crate) fn learn_addresses(&mut self) {
        let Some(config) = &mut self.config else { return };
        if config.has_news() {
            self.routes = Routes { addresses: config.addresses(), gateways: config.gateways() };
        }
    }

    /// Time of the next timer; `u64::MAX` without a timer.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let config = self.config.as_ref().map_or(u64::MAX, |config| config.next);
        let fragments = self.fragments.deadline().unwrap_or(u64::MAX);
        self.neighbors.deadline().unwrap_or(u64::MAX).min(config).min(fragments)
    }

    /// Returns the identification of the next packet between two addresses that may be fragmented.
    pub(crate) fn next_identification(&mut self, source: IpAddr, destination: IpAddr) -> u32 {
        self.identifications.next(source, destination)
    }

    /// Counts a member of a multicast group.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`, `ENOMEM`.
    pub(crate) fn count_member(&mut self, membership: Membership, now: u64) -> Result<(), Errno> {
        self.groups.count(membership, self.config.as_mut(), now)
    }

    /// Removes a member of a multicast group from the count.
    pub(crate) fn uncount_member(&mut self, membership: Membership, now: u64) {
        self.groups.uncount(membership, self.config.as_mut(), now);
    }
}
