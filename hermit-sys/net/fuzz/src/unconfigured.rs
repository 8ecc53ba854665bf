//! Frames for the host without addresses: router advertisements and DHCP replies with contents of the script.
//!
//! Checksums and DHCP transaction IDs are filled in, since a fuzzer does not find them.

use crate::{NetworkNode, Script};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// BOOTREPLY, and the magic cookie before the options (RFC 2131 §2 and §3).
const BOOTREPLY: u8 = 2;
const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Returns the Internet checksum (RFC 1071). Each part except the last has an even size.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0);
    (!folded).to_be_bytes()
}

/// A frame with a router advertisement from one of 16 routers.
pub(crate) fn router_advertisement(script: &mut Script<'_>) -> Vec<u8> {
    let (router, count) = (script.byte(), script.byte());
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, script.byte(), 0, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..count % 4 {
        message.extend(option(script));
    }
    let source = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, router % 16 + 1];
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let size = u16::try_from(message.len()).unwrap_or(0).to_be_bytes();
    let sum = checksum(&[&source, &group, &size, &[0, 58], &message]);
    message[2..4].copy_from_slice(&sum);
    let head = [&[0x33, 0x33, 0, 0, 0, 1][..], &ROUTER_MAC, &[0x86, 0xdd, 0x60, 0, 0, 0], &size, &[58, 255]];
    [&head.concat()[..], &source, &group, &message].concat()
}

/// A prefix information option (RFC 4861 §4.6.2), or any bytes.
fn option(script: &mut Script<'_>) -> Vec<u8> {
    let kind = script.byte();
    if kind < 64 {
        let count = usize::from(script.byte() % 32);
        return script.bytes(count).to_vec();
    }
    // Often a prefix of 64 bits, from which SLAAC makes an address.
    let (length, flags) = if kind < 160 { (64, 0xc0) } else { (script.byte(), script.byte()) };
    let mut option = vec![3, 4, length, flags];
    let lifetimes = script.byte();
    for which in 0..2 {
        option.extend(match lifetimes >> (which * 2) & 3 {
            0 => [0; 4],
            1 => [0, 0, 0, 1],
            2 => [0xff; 4],
            _ => [0, 0, script.byte(), script.byte()],
        });
    }
    option.extend([0; 4]);
    option.extend(script.bytes(8));
    option.resize(32, 0);
    option
}

/// A frame with a server's reply to the host's last DHCP message.
pub(crate) fn dhcp_reply(node: &mut NetworkNode, script: &mut Script<'_>) -> Option<Vec<u8>> {
    let device = node.stack.device()?;
    let outgoing = device.outgoing.borrow();
    // UDP from the client's port. The transaction ID is at the same offset in all messages.
    let request = outgoing.iter().rev().find(|frame| frame.get(34..36) == Some(&[0, 68]))?;
    let transaction: [u8; 4] = *request.get(46..)?.first_chunk()?;
    drop(outgoing);
    let how = script.byte();
    let mut address = || -> [u8; 4] {
        match script.byte() {
            few @ 0..64 => [10, 0, 0, few],
            64..80 => [0; 4],
            80..96 => [255; 4],
            _ => [script.byte(), script.byte(), script.byte(), script.byte()],
        }
    };
    let (own, source, mask, router, server) = (address(), address(), address(), address(), address());
    let mut message = vec![BOOTREPLY, 1, 6, 0];
    message.extend(transaction);
    message.extend([0; 8]);
    message.extend(own);
    message.extend([0; 8]);
    message.extend(MAC);
    message.resize(236, 0);
    message.extend(MAGIC_COOKIE);
    // Message type: an offer, an acknowledgement or a refusal.
    message.extend([53, 1, [2, 5, 2, 5, 6][usize::from(how % 5)]]);
    message.extend([54, 4, 10, 0, 0, 9]);
    let mask = match how >> 5 {
        bits @ 0..4 => (u32::MAX << (u32::from(bits) * 8 + 1)).to_be_bytes(),
        _ => mask,
    };
    for (kind, value) in [(1, mask), (3, router), (6, server)] {
        message.extend([kind, 4]);
        message.extend(value);
    }
    let count = usize::from(script.byte() % 64);
    message.extend(script.bytes(count));
    message.push(255);
    Some(datagram(source, &message))
}

/// A frame with a UDP datagram from a server's port to a client's.
fn datagram(source: [u8; 4], message: &[u8]) -> Vec<u8> {
    let size = |head: usize| u16::try_from(head + message.len()).unwrap_or(0).to_be_bytes();
    let mut header = vec![0x45, 0];
    header.extend(size(28));
    header.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    header.extend(source);
    header.extend([255; 4]);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    let ethernet = [&[255; 6][..], &ROUTER_MAC, &[8, 0]].concat();
    // The UDP checksum is 0: not computed.
    [&ethernet[..], &header, &[0, 67, 0, 68], &size(8), &[0, 0], message].concat()
}
