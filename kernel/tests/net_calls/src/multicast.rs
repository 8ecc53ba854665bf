//! Multicast groups on the loopback interface, which every host has.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::record::Transcript;
use crate::support::{IpVersion, receive, settle};
use crate::{Check, CheckResult, NamedCheck, sys};

/// Groups that no other program uses; IPv6 ones are interface-local (RFC 4291, section 2.7).
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0x77, 1);

/// Index of the loopback interface.
const LOOPBACK_V6: u32 = 1;

pub(crate) const ROWS: [NamedCheck; 9] = [
    ("members_receive", Check::Once(members_receive)),
    ("two_members", Check::Once(two_members)),
    ("after_leaving", Check::Once(after_leaving)),
    ("twice", Check::PerVersion(twice)),
    ("leave_without_joining", Check::PerVersion(leave_without_joining)),
    ("not_a_group", Check::PerVersion(not_a_group)),
    ("unknown_interface", Check::PerVersion(unknown_interface)),
    ("loop_and_ttl", Check::Once(loop_and_ttl)),
    ("of_the_other_version", Check::Once(of_the_other_version)),
];

fn join(socket: &UdpSocket, ip: IpVersion) -> io::Result<()> {
    match ip {
        IpVersion::V4 => socket.join_multicast_v4(&GROUP_V4, &Ipv4Addr::LOCALHOST),
        IpVersion::V6 => socket.join_multicast_v6(&GROUP_V6, LOOPBACK_V6),
    }
}

fn leave(socket: &UdpSocket, ip: IpVersion) -> io::Result<()> {
    match ip {
        IpVersion::V4 => socket.leave_multicast_v4(&GROUP_V4, &Ipv4Addr::LOCALHOST),
        IpVersion::V6 => socket.leave_multicast_v6(&GROUP_V6, LOOPBACK_V6),
    }
}

/// The IPv4 group, with a port. Linux has no route to IPv6 groups on the loopback interface, so their
/// reception cannot be compared.
fn group(port: u16) -> SocketAddr {
    (GROUP_V4, port).into()
}

/// A socket in the group on a port, alone or together with another one.
fn member(ip: IpVersion, port: u16) -> io::Result<UdpSocket> {
    let socket = ip.datagram_socket()?;
    sys::set_option(&socket, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&socket, ip.any(port))?;
    let socket = UdpSocket::from(socket);
    join(&socket, ip)?;
    Ok(socket)
}

/// A socket whose multicast datagrams go to the loopback interface.
fn sender(ip: IpVersion) -> io::Result<UdpSocket> {
    ip.datagrams().map(|(socket, _)| socket)
}

fn members_receive(record: &mut Transcript) -> CheckResult {
    let member = member(IpVersion::V4, 0)?;
    let port = member.local_addr()?.port();
    let sender = sender(IpVersion::V4)?;
    record.add("send", sender.send_to(b"all", group(port)));
    record.add("received", receive(&member));
    // A socket that is no member may be bound to the port, too.
    let (stranger, address) = IpVersion::V4.datagrams()?;
    record.add("send", sender.send_to(b"all", group(address.port())));
    settle();
    stranger.set_nonblocking(true)?;
    record.add("no member", receive(&stranger));
    Ok(())
}

fn two_members(record: &mut Transcript) -> CheckResult {
    let one = member(IpVersion::V4, 0)?;
    let port = one.local_addr()?.port();
    let other = member(IpVersion::V4, port)?;
    sender(IpVersion::V4)?.send_to(b"all", group(port))?;
    record.add("one", receive(&one));
    record.add("other", receive(&other));
    Ok(())
}

fn after_leaving(record: &mut Transcript) -> CheckResult {
    let member = member(IpVersion::V4, 0)?;
    let port = member.local_addr()?.port();
    record.add("leave", leave(&member, IpVersion::V4));
    let sent = sender(IpVersion::V4)?.send_to(b"all", group(port));
    record.add("send", sent);
    settle();
    member.set_nonblocking(true)?;
    record.add("received", receive(&member));
    Ok(())
}

fn twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let member = member(ip, 0)?;
    record.add("join again", join(&member, ip));
    record.add("leave", leave(&member, ip));
    record.add("leave again", leave(&member, ip));
    record.add("join", join(&member, ip));
    Ok(())
}

fn leave_without_joining(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("leave", leave(&sender(ip)?, ip));
    Ok(())
}

fn not_a_group(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = sender(ip)?;
    let (join, leave) = match ip {
        IpVersion::V4 => {
            let address = Ipv4Addr::new(10, 1, 2, 3);
            let interface = Ipv4Addr::LOCALHOST;
            (socket.join_multicast_v4(&address, &interface), socket.leave_multicast_v4(&address, &interface))
        }
        IpVersion::V6 => {
            let address = Ipv6Addr::LOCALHOST;
            let interface = LOOPBACK_V6;
            (socket.join_multicast_v6(&address, interface), socket.leave_multicast_v6(&address, interface))
        }
    };
    record.add("join", join);
    record.add("leave", leave);
    Ok(())
}

fn unknown_interface(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = sender(ip)?;
    let join = match ip {
        IpVersion::V4 => socket.join_multicast_v4(&GROUP_V4, &Ipv4Addr::new(203, 0, 113, 77)),
        IpVersion::V6 => socket.join_multicast_v6(&GROUP_V6, 77_777),
    };
    record.add("join", join);
    Ok(())
}

fn loop_and_ttl(record: &mut Transcript) -> CheckResult {
    let v4 = sender(IpVersion::V4)?;
    record.add("loop", v4.multicast_loop_v4());
    v4.set_multicast_loop_v4(false)?;
    record.add("off", v4.multicast_loop_v4());
    record.add("ttl", v4.multicast_ttl_v4());
    for ttl in [0, 7, 255, 256] {
        let set = v4.set_multicast_ttl_v4(ttl);
        record.add("set", set);
        record.add("ttl", v4.multicast_ttl_v4());
    }
    let v6 = sender(IpVersion::V6)?;
    record.add("v6 loop", v6.multicast_loop_v6());
    v6.set_multicast_loop_v6(false)?;
    record.add("off", v6.multicast_loop_v6());
    Ok(())
}

fn of_the_other_version(record: &mut Transcript) -> CheckResult {
    record.add("v4 socket joins v6", sender(IpVersion::V4)?.join_multicast_v6(&GROUP_V6, LOOPBACK_V6));
    record.add("v6 socket joins v4", join(&sender(IpVersion::V6)?, IpVersion::V4));
    record.add("v4 socket's v6 loop", sender(IpVersion::V4)?.multicast_loop_v6());
    record.add("v6 socket's v4 loop", sender(IpVersion::V6)?.multicast_loop_v4());
    Ok(())
}
