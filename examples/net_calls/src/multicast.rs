//! Groups, on the interface of the loopback address: that one is everywhere.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::notes::Notes;
use crate::support::{Ip, receive, settle};
use crate::{Check, Outcome, Row, sys};

/// Groups that nobody else uses; those of IPv6 stay on this machine (RFC 4291, section 2.7).
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0x77, 1);

/// The first interface is that of the loopback address.
const LOOPBACK_V6: u32 = 1;

pub(crate) const ROWS: [Row; 9] = [
    ("members_receive", Check::Plain(members_receive)),
    ("two_members", Check::Plain(two_members)),
    ("after_leaving", Check::Plain(after_leaving)),
    ("twice", Check::Versions(twice)),
    ("leave_without_joining", Check::Versions(leave_without_joining)),
    ("not_a_group", Check::Versions(not_a_group)),
    ("unknown_interface", Check::Versions(unknown_interface)),
    ("loop_and_ttl", Check::Plain(loop_and_ttl)),
    ("of_the_other_version", Check::Plain(of_the_other_version)),
];

fn join(socket: &UdpSocket, ip: Ip) -> io::Result<()> {
    match ip {
        Ip::V4 => socket.join_multicast_v4(&GROUP_V4, &Ipv4Addr::LOCALHOST),
        Ip::V6 => socket.join_multicast_v6(&GROUP_V6, LOOPBACK_V6),
    }
}

fn leave(socket: &UdpSocket, ip: Ip) -> io::Result<()> {
    match ip {
        Ip::V4 => socket.leave_multicast_v4(&GROUP_V4, &Ipv4Addr::LOCALHOST),
        Ip::V6 => socket.leave_multicast_v6(&GROUP_V6, LOOPBACK_V6),
    }
}

/// The group of IPv4, with a port. Linux has no route to groups of IPv6 on the interface of the loopback address, so
/// whether those receive anything cannot be seen everywhere.
fn group(port: u16) -> SocketAddr {
    (GROUP_V4, port).into()
}

/// A socket in the group at a port, by itself or together with another one.
fn member(ip: Ip, port: u16) -> io::Result<UdpSocket> {
    let socket = ip.datagram_socket()?;
    sys::set_option(&socket, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&socket, ip.any(port))?;
    let socket = UdpSocket::from(socket);
    join(&socket, ip)?;
    Ok(socket)
}

/// A socket whose datagrams to groups go to the interface of the loopback address.
fn sender(ip: Ip) -> io::Result<UdpSocket> {
    ip.datagrams().map(|(socket, _)| socket)
}

fn members_receive(notes: &mut Notes) -> Outcome {
    let member = member(Ip::V4, 0)?;
    let port = member.local_addr()?.port();
    let sender = sender(Ip::V4)?;
    notes.add("send", sender.send_to(b"all", group(port)));
    notes.add("received", receive(&member));
    // Who is no member may be at the port, too.
    let (stranger, address) = Ip::V4.datagrams()?;
    notes.add("send", sender.send_to(b"all", group(address.port())));
    settle();
    stranger.set_nonblocking(true)?;
    notes.add("no member", receive(&stranger));
    Ok(())
}

fn two_members(notes: &mut Notes) -> Outcome {
    let one = member(Ip::V4, 0)?;
    let port = one.local_addr()?.port();
    let other = member(Ip::V4, port)?;
    sender(Ip::V4)?.send_to(b"all", group(port))?;
    notes.add("one", receive(&one));
    notes.add("other", receive(&other));
    Ok(())
}

fn after_leaving(notes: &mut Notes) -> Outcome {
    let member = member(Ip::V4, 0)?;
    let port = member.local_addr()?.port();
    notes.add("leave", leave(&member, Ip::V4));
    let sent = sender(Ip::V4)?.send_to(b"all", group(port));
    notes.add("send", sent);
    settle();
    member.set_nonblocking(true)?;
    notes.add("received", receive(&member));
    Ok(())
}

fn twice(notes: &mut Notes, ip: Ip) -> Outcome {
    let member = member(ip, 0)?;
    notes.add("join again", join(&member, ip));
    notes.add("leave", leave(&member, ip));
    notes.add("leave again", leave(&member, ip));
    notes.add("join", join(&member, ip));
    Ok(())
}

fn leave_without_joining(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("leave", leave(&sender(ip)?, ip));
    Ok(())
}

fn not_a_group(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = sender(ip)?;
    let (join, leave) = match ip {
        Ip::V4 => {
            let address = Ipv4Addr::new(10, 1, 2, 3);
            let interface = Ipv4Addr::LOCALHOST;
            (socket.join_multicast_v4(&address, &interface), socket.leave_multicast_v4(&address, &interface))
        }
        Ip::V6 => {
            let address = Ipv6Addr::LOCALHOST;
            let interface = LOOPBACK_V6;
            (socket.join_multicast_v6(&address, interface), socket.leave_multicast_v6(&address, interface))
        }
    };
    notes.add("join", join);
    notes.add("leave", leave);
    Ok(())
}

fn unknown_interface(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = sender(ip)?;
    let join = match ip {
        Ip::V4 => socket.join_multicast_v4(&GROUP_V4, &Ipv4Addr::new(203, 0, 113, 77)),
        Ip::V6 => socket.join_multicast_v6(&GROUP_V6, 77_777),
    };
    notes.add("join", join);
    Ok(())
}

fn loop_and_ttl(notes: &mut Notes) -> Outcome {
    let v4 = sender(Ip::V4)?;
    notes.add("loop", v4.multicast_loop_v4());
    v4.set_multicast_loop_v4(false)?;
    notes.add("off", v4.multicast_loop_v4());
    notes.add("ttl", v4.multicast_ttl_v4());
    for ttl in [0, 7, 255, 256] {
        let set = v4.set_multicast_ttl_v4(ttl);
        notes.add("set", set);
        notes.add("ttl", v4.multicast_ttl_v4());
    }
    let v6 = sender(Ip::V6)?;
    notes.add("v6 loop", v6.multicast_loop_v6());
    v6.set_multicast_loop_v6(false)?;
    notes.add("off", v6.multicast_loop_v6());
    Ok(())
}

fn of_the_other_version(notes: &mut Notes) -> Outcome {
    notes.add("v4 socket joins v6", sender(Ip::V4)?.join_multicast_v6(&GROUP_V6, LOOPBACK_V6));
    notes.add("v6 socket joins v4", join(&sender(Ip::V6)?, Ip::V4));
    notes.add("v4 socket's v6 loop", sender(Ip::V4)?.multicast_loop_v6());
    notes.add("v6 socket's v4 loop", sender(Ip::V6)?.multicast_loop_v4());
    Ok(())
}
