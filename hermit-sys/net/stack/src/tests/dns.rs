//! Name servers, search list, and the names that the stack resolves itself.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{System, World, configuration, v4, v6};
use crate::{Configuration, HostAddress, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec;

/// A host with a configuration.
fn world(configuration: Configuration) -> World {
    World::with([(configuration, SimDevice::plain(0))], Faults::default())
}

#[test]
fn host_name_resolves_to_the_configured_address_only() {
    let other: IpAddr = "192.0.2.7".parse().unwrap();
    for (host, expected) in [
        (None, vec![]),
        (Some(HostAddress::Address(other)), vec![other]),
        (Some(HostAddress::Gateway), vec![v4(1)]),
    ] {
        let gateways = vec![v4(1), "fe80::1".parse().unwrap()];
        let world = world(Configuration { host, gateways, ..configuration(0) });
        let found = world.nodes[0].known_addresses("Host.hermit.internal.").unwrap();
        assert_eq!(found, expected.as_slice(), "{host:?}");
    }
    let world = world(Configuration { host: Some(HostAddress::Gateway), ..configuration(0) });
    assert!(world.nodes[0].known_addresses("host.hermit.internal").unwrap().is_empty());
}

#[test]
fn own_name_resolves_to_own_addresses() {
    let named = |configuration| Configuration { hostname: Some("Guest".into()), ..configuration };
    let world = world(named(configuration(0)));
    for (name, expected) in
        [("guest", Some(vec![v6(0), v4(0)])), ("GUEST.", Some(vec![v6(0), v4(0)])), ("other", None)]
    {
        let found = world.nodes[0].known_addresses(name).map(|mut found| {
            found.sort_by_key(IpAddr::is_ipv4);
            found.to_vec()
        });
        assert_eq!(found, expected, "{name}");
    }
    let node = Stack::<SimDevice, System>::new(None, System::new(1), named(Configuration::default()), 0);
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    assert_eq!(node.known_addresses("guest").unwrap(), loopback);
    assert!(node.nameservers().is_empty() && node.search().is_empty());
}

#[test]
fn search_list_is_in_the_format_of_messages() {
    let world = world(Configuration { search: vec!["corp.test".into(), "x.".into()], ..configuration(0) });
    assert_eq!(world.nodes[0].search(), b"\x04corp\x04test\0\x01x\0");
}
