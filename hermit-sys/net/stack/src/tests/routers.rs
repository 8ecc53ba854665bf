//! Invalid router advertisements, leases and configurations.
//!
//! smoltcp panics at some addresses that a router, a DHCP server or the user may choose. The stack therefore
//! filters them. The tests send such addresses, also at random, and check that the host does not panic and
//! uses the valid addresses.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{SECOND, World, configuration, header, pattern, v4, v6};
use crate::tests::configure::{Lease, dhcp_server, grant};
use crate::wire::emit::IpHeader;
use crate::{Cidr, Configuration};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_oneof, proptest};
use smoltcp::wire::{Icmpv6Packet, IpProtocol};
use std::vec;
use std::vec::Vec;

const ROUTER: &str = "fe80::ff:fe00:101";

/// A host with SLAAC, and one that simulates routers and servers.
fn world() -> World {
    let nodes = [(Configuration::default(), SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))];
    World::with(nodes, Faults::default())
}

/// A prefix information option (RFC 4861, section 4.6.2).
fn prefix(prefix: &str, length: u8, flags: u8, lifetime: u32) -> Vec<u8> {
    let mut option = vec![3, 4, length, flags];
    option.extend(lifetime.to_be_bytes());
    option.extend(lifetime.to_be_bytes());
    option.extend([0; 4]);
    option.extend(prefix.parse::<Ipv6Addr>().unwrap().octets());
    option
}

/// Sends a router advertisement.
fn advertise(world: &mut World, source: &str, hop_limit: u8, options: &[u8]) {
    let (router, group): (Ipv6Addr, Ipv6Addr) = (source.parse().unwrap(), "ff02::1".parse().unwrap());
    let packet = header(router.into(), group.into(), IpProtocol::Icmpv6, 16 + options.len());
    world.inject(1, [0x33, 0x33, 0, 0, 0, 1], IpHeader { hop_limit, ..packet }, |bytes| {
        bytes.fill(0);
        // Router lifetime: 60 s.
        (bytes[0], bytes[7]) = (134, 60);
        bytes[16..].copy_from_slice(options);
        Icmpv6Packet::new_unchecked(bytes).fill_checksum(&router, &group);
    });
}

/// Addresses of a host without the link-local one, and whether it has a router.
fn learned(world: &World) -> (Vec<Cidr>, bool) {
    let status = world.nodes[0].status();
    let is_far = |own: &Cidr| !matches!(own.address, IpAddr::V6(own) if own.is_unicast_link_local());
    (status.addresses.iter().copied().filter(is_far).collect(), !status.gateways.is_empty())
}

#[test]
fn prefixes_unusable_for_slaac_are_ignored() {
    for (text, length) in [
        ("2001:db8::", 129),
        ("2001:db8::", 255),
        ("2001:db8::", 128),
        ("2001:db8::", 63),
        ("ff02::", 64),
        ("ffff:ffff::", 64),
        ("::", 64),
        ("::1", 64),
        ("fe80::", 64),
        ("febf:1::", 64),
    ] {
        for flags in [0x40, 0xc0] {
            let mut world = world();
            advertise(&mut world, ROUTER, 255, &prefix(text, length, flags, 600));
            world.run(2 * SECOND);
            assert_eq!(learned(&world), (vec![], true), "{text}/{length}");
            // Unusable prefixes do not hide a usable one.
            let mut options = prefix("2001:db8::", 64, flags, u32::MAX);
            options.extend(prefix(text, length, flags, 600));
            advertise(&mut world, ROUTER, 255, &options);
            world.run(2 * SECOND);
            let own = Cidr { address: "2001:db8::ff:fe00:100".parse().unwrap(), prefix: 64 };
            assert_eq!(learned(&world), (vec![own], true), "{text}/{length}");
        }
    }
}

#[test]
fn advertisements_from_off_link_are_ignored() {
    let mut world = world();
    let option = prefix("2001:db8::", 64, 0xc0, 600);
    for (source, hop_limit) in [(ROUTER, 254), (ROUTER, 1), ("2001:db8::1", 255), ("fd00::2", 255)] {
        advertise(&mut world, source, hop_limit, &option);
        world.run(2 * SECOND);
        assert_eq!(learned(&world), (vec![], false), "{source} {hop_limit}");
    }
    advertise(&mut world, ROUTER, 255, &option);
    world.run(2 * SECOND);
    assert!(learned(&world).1);
}

/// Applies a lease, then runs for a while: smoltcp renews the lease, and must have a unicast address to
/// solicit.
fn lease_and_run(own: [u8; 4], mask: [u8; 4], router: [u8; 4]) -> World {
    let mut world = world();
    let server = dhcp_server(&mut world);
    let lease = Lease {
        own: own.into(),
        mask: mask.into(),
        router: router.into(),
        servers: &[[8, 8, 8, 8].into()],
        options: &[],
    };
    world.run_until(5 * SECOND, |world| {
        grant(world, server, &lease);
        world.nodes[0].is_configured()
    });
    world.run(400 * SECOND);
    world
}

#[test]
fn invalid_leases_do_no_harm() {
    for (own, mask, router, is_taken) in [
        // The first address of the network, the usual alias of the off-link gateway, is 0.0.0.0.
        ([0, 0, 0, 5], [255, 0, 0, 0], [10, 0, 0, 2], false),
        ([10, 0, 0, 5], [128, 0, 0, 0], [200, 0, 0, 1], true),
        ([10, 0, 0, 5], [0, 0, 0, 0], [200, 0, 0, 1], true),
        // On-link, but not a host address.
        ([200, 0, 0, 5], [128, 0, 0, 0], [255, 255, 255, 255], true),
        ([200, 0, 0, 5], [128, 0, 0, 0], [224, 0, 0, 1], true),
        ([10, 0, 0, 5], [128, 0, 0, 0], [0, 0, 0, 0], true),
        ([10, 0, 0, 5], [128, 0, 0, 0], [0, 0, 0, 9], true),
        ([127, 0, 0, 1], [255, 0, 0, 0], [10, 0, 0, 2], false),
        ([10, 0, 0, 5], [255, 255, 255, 254], [10, 0, 0, 5], true),
    ] {
        let world = lease_and_run(own, mask, router);
        assert_eq!(world.nodes[0].is_configured(), is_taken, "{own:?} {mask:?} {router:?}");
    }
}

/// Valid and invalid options.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let lifetime = || prop_oneof![Just(0), Just(1), Just(u32::MAX), any::<u32>()];
    let length = prop_oneof![3 => Just(64), 1 => any::<u8>()];
    let start =
        prop_oneof![Just([0x20, 1]), Just([0xff, 2]), Just([0, 0]), Just([0xfe, 0x80]), any::<[u8; 2]>()];
    let prefix = (length, any::<u8>(), lifetime(), lifetime(), start, any::<[u8; 2]>()).prop_map(
        |(length, flags, valid, preferred, start, rest)| {
            let mut option = vec![3, 4, length, flags];
            option.extend(valid.to_be_bytes());
            option.extend(preferred.to_be_bytes());
            option.extend([0; 4]);
            option.extend(start);
            option.extend(rest);
            option.resize(32, 0);
            option
        },
    );
    let other = (0..8_u8, 0..5_u8, any::<u8>()).prop_map(|(kind, units, fill)| {
        let mut option = vec![fill; usize::from(units).max(1) * 8];
        (option[0], option[1]) = (kind, units);
        option
    });
    let junk = vec(any::<u8>(), 0..20);
    vec(prop_oneof![6 => prefix, 3 => other, 1 => junk], 0..6).prop_map(|options| options.concat())
}

proptest! {
    #[test]
    fn arbitrary_advertisements_do_no_harm(all in vec((options(), 1..12_u8, 0..90_u8), 1..if cfg!(miri) { 6 } else { 30 })) {
        let mut world = world();
        for (options, router, wait) in all {
            advertise(&mut world, &std::format!("fe80::{router}"), 255, &options);
            world.run(u64::from(wait) * SECOND);
            for own in world.nodes[0].status().addresses {
                prop_assert!(!own.address.is_multicast() && !own.address.is_unspecified(), "{own:?}");
            }
        }
    }
}

#[test]
fn status_lists_ignored_addresses() {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let cidr = |address| Cidr { address, prefix: 24 };
    let configuration = Configuration {
        addresses: [ip("224.0.0.1"), ip("::1")].into_iter().chain((0..8).map(v6)).map(cidr).collect(),
        gateways: ["10.0.0.1", "fe80::1", "10.0.0.2", "ff02::1"].map(ip).into(),
        nameservers: ["0.0.0.0", "1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5"].map(ip).into(),
        ..Configuration::default()
    };
    let world = World::with([(configuration, SimDevice::plain(0))], Faults::default());
    let status = world.nodes[0].status();
    // Room is reserved for the link-local address and for a lease.
    assert_eq!(status.addresses.len(), 7);
    assert_eq!(status.nameservers, ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"].map(ip));
    assert_eq!(status.gateways, ["10.0.0.1", "fe80::1"].map(ip));
    let addresses = [ip("224.0.0.1"), ip("::1"), v6(6), v6(7)];
    let others = ["10.0.0.2", "ff02::1", "0.0.0.0", "1.1.1.5"].map(ip);
    assert_eq!(status.ignored, [addresses, others].concat());
}

#[test]
fn mtu_below_1280_disables_ipv6() {
    for mtu in [68, 100, 296, 575, 576, 1279, 1280] {
        let small = SimDevice::plain(0).with_mtu(mtu);
        let nodes = [(configuration(0), small), (configuration(1), SimDevice::plain(1))];
        let mut world = World::with(nodes, Faults::default());
        let has_v6 = mtu >= 1280;
        let status = world.nodes[0].status();
        assert_eq!(status.addresses.iter().any(|own| own.address.is_ipv6()), has_v6, "{mtu}");
        assert_eq!(status.ignored.contains(&v6(0)), !has_v6);
        // The simulated device accepts no packets larger than the MTU.
        let listener = world.listen(1, 80, 8);
        let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
        let bytes = pattern(20_000);
        assert!(world.transfer((0, client), (1, server), &bytes, 20 * SECOND) == bytes, "{mtu}");
        // No IPv6 packets are sent or answered.
        world.run(SECOND);
        world.wire.borrow_mut().log = Some(vec![]);
        advertise(&mut world, ROUTER, 255, &prefix("2001:db8::", 64, 0xc0, 600));
        let echo = [128, 0, 0, 0, 0, 0, 0, 0];
        let (from, to): (Ipv6Addr, Ipv6Addr) = (ROUTER.parse().unwrap(), "ff02::1".parse().unwrap());
        let packet = header(from.into(), to.into(), IpProtocol::Icmpv6, echo.len());
        world.inject(1, [0x33, 0x33, 0, 0, 0, 1], packet, |bytes| {
            bytes.copy_from_slice(&echo);
            Icmpv6Packet::new_unchecked(bytes).fill_checksum(&from, &to);
        });
        world.run(SECOND);
        let log = world.wire.borrow_mut().log.take().unwrap();
        let of_first = |frame: &&Vec<u8>| frame.get(6..14) == Some(&[2, 0, 0, 0, 1, 0, 0x86, 0xdd]);
        assert_eq!(log.iter().any(|frame| of_first(&frame)), has_v6, "{mtu}");
    }
}
