//! The DHCP server (RFC 2131). It has only one address to lease, the guest's.

use std::net::{Ipv4Addr, SocketAddr};

use smoltcp::wire::{
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress,
};

use crate::config::Config;
use crate::emit;
use crate::parse::Ends;

/// Lease time in seconds. The guest renews the lease after half of this time.
const LEASE: u32 = 24 * 60 * 60;

/// Options that smoltcp does not know: host name, MTU, domain, search list (RFC 2132 §3.14, §3.17, §5.1; RFC
/// 3397).
const HOSTNAME: u8 = 12;
const DOMAIN: u8 = 15;
const MTU: u8 = 26;
const SEARCH: u8 = 119;

/// Maximum number of bytes of an option.
const MAX_OPTION: usize = 255;

/// Returns true if `to` is an address and the port of the server.
pub(crate) fn is_server(to: SocketAddr, config: &Config) -> bool {
    let is_address = to.ip() == Ipv4Addr::BROADCAST || to.ip() == config.gateways.0;
    to.port() == DHCP_SERVER_PORT && is_address
}

/// Answer of the server to a DHCP message.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) frame: Vec<u8>,
    /// True if the answer grants the lease (DHCPACK).
    pub(crate) is_lease: bool,
}

/// Returns the answer to a DHCP message of the guest; `None` if it gets none.
pub(crate) fn answer(config: &Config, message: &[u8]) -> Option<Answer> {
    let packet = DhcpPacket::new_checked(message).ok()?;
    let request = DhcpRepr::parse(&packet).ok()?;
    if request.client_hardware_address != EthernetAddress(config.guest_mac) {
        return None;
    }
    let (guest, prefix) = config.guest_v4;
    let gateway = config.gateways.0;
    let wanted = request.requested_ip.unwrap_or(request.client_ip);
    let message_type = match request.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request if request.server_identifier.is_some_and(|server| server != gateway) => {
            return None;
        }
        DhcpMessageType::Request if wanted != guest => DhcpMessageType::Nak,
        DhcpMessageType::Request | DhcpMessageType::Inform => DhcpMessageType::Ack,
        _ => return None,
    };
    let is_nak = message_type == DhcpMessageType::Nak;
    let mut texts = vec![(MTU, config.mtu.to_be_bytes().to_vec())];
    texts.extend(config.hostname.iter().map(|name| (HOSTNAME, name.clone().into_bytes())));
    texts.extend(config.search.first().map(|domain| (DOMAIN, domain.clone().into_bytes())));
    texts.extend((!config.search.is_empty()).then(|| (SEARCH, encode_domains(&config.search))));
    let options: Vec<_> = texts
        .iter()
        .filter(|(_, data)| data.len() <= MAX_OPTION && !is_nak)
        .map(|(kind, data)| DhcpOption { kind: *kind, data })
        .collect();
    let reply = DhcpRepr {
        message_type,
        transaction_id: request.transaction_id,
        secs: 0,
        client_hardware_address: request.client_hardware_address,
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: if is_nak { Ipv4Addr::UNSPECIFIED } else { guest },
        server_ip: gateway,
        router: (!is_nak).then_some(gateway),
        subnet_mask: (!is_nak).then(|| mask(prefix)),
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: request.broadcast,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(gateway),
        parameter_request_list: None,
        dns_servers: (!is_nak).then(|| config.nameservers.iter().copied().take(3).collect()),
        max_size: None,
        lease_duration: (!is_nak).then_some(LEASE),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &options,
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).ok()?;
    // Broadcast, because the client may have no address yet.
    let to = if is_nak || request.broadcast { Ipv4Addr::BROADCAST } else { guest };
    let ends = Ends {
        guest: SocketAddr::new(to.into(), DHCP_CLIENT_PORT),
        peer: SocketAddr::new(gateway.into(), DHCP_SERVER_PORT),
    };
    let is_lease = message_type == DhcpMessageType::Ack;
    Some(Answer { frame: emit::udp(config.guest_mac, ends, &bytes), is_lease })
}

fn mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0))
}

/// Encodes domains as uncompressed DNS names (RFC 3397 §2): as many as fit into one option.
fn encode_domains(domains: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for domain in domains {
        let labels = domain.split('.').filter(|label| !label.is_empty() && label.len() < 64);
        let mut name: Vec<u8> = labels.flat_map(label_bytes).collect();
        name.push(0);
        if bytes.len() + name.len() <= MAX_OPTION {
            bytes.extend(name);
        }
    }
    bytes
}

fn label_bytes(label: &str) -> Vec<u8> {
    let length = u8::try_from(label.len()).unwrap_or(u8::MAX);
    [&[length], label.as_bytes()].concat()
}
