//! The events that `poll` reports for streams and listeners in each of their states.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;

use crate::events::{ALL_EVENTS, show};
use crate::record::Transcript;
use crate::support::{IpVersion, drain, fill, read, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 18] = [
    ("fresh", Check::PerVersion(fresh)),
    ("bound", Check::PerVersion(bound)),
    ("listener", Check::PerVersion(listener)),
    ("connected", Check::PerVersion(connected)),
    ("data", Check::PerVersion(data)),
    ("full", Check::PerVersion(full)),
    ("peer_shut_down", Check::PerVersion(peer_shut_down)),
    ("peer_shut_down_with_data", Check::PerVersion(peer_shut_down_with_data)),
    ("own_shut_down", Check::PerVersion(own_shut_down)),
    ("read_shut_down", Check::PerVersion(read_shut_down)),
    ("both_shut_down", Check::PerVersion(both_shut_down)),
    ("peer_closed", Check::PerVersion(peer_closed)),
    ("reset", Check::PerVersion(reset)),
    ("written_after_close", Check::PerVersion(written_after_close)),
    ("refused", Check::PerVersion(refused)),
    ("connecting", Check::PerVersion(connecting)),
    ("listener_shut_down", Check::PerVersion(listener_shut_down)),
    ("nothing_asked", Check::PerVersion(nothing_asked)),
];

/// Records all current events of a descriptor.
fn record_events(record: &mut Transcript, what: &str, fd: impl AsFd) {
    record.add(what, show(&fd, ALL_EVENTS));
}

fn fresh(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record_events(record, "fresh", ip.stream_socket()?);
    Ok(())
}

fn bound(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = ip.stream_socket()?;
    sys::bind(&socket, ip.loopback(0))?;
    record_events(record, "bound", socket);
    Ok(())
}

fn listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    record_events(record, "idle", &listener);
    let client = TcpStream::connect(address)?;
    settle();
    record_events(record, "pending connection", &listener);
    let _server = listener.accept()?;
    record_events(record, "accepted", &listener);
    drop(client);
    settle();
    record_events(record, "gone", &listener);
    Ok(())
}

fn connected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record_events(record, "client", client);
    settle();
    record_events(record, "server of a closed client", server);
    Ok(())
}

fn data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record_events(record, "idle", &server);
    write(&client, b"data")?;
    settle();
    record_events(record, "data", &server);
    read(&server)?;
    record_events(record, "read", &server);
    Ok(())
}

fn full(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    record_events(record, "full", &client);
    server.set_nonblocking(true)?;
    drain(&server, sent)?;
    record_events(record, "drained", &client);
    Ok(())
}

fn peer_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    settle();
    record_events(record, "unread", &server);
    read(&server)?;
    record_events(record, "end read", &server);
    record_events(record, "shut-down side", &client);
    Ok(())
}

fn peer_shut_down_with_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    client.shutdown(Shutdown::Write)?;
    settle();
    record_events(record, "unread", &server);
    read(&server)?;
    record_events(record, "data read", &server);
    Ok(())
}

fn own_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    settle();
    record_events(record, "write shut down", &client);
    Ok(())
}

fn read_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Read)?;
    settle();
    record_events(record, "read shut down", &client);
    record_events(record, "the peer", &server);
    Ok(())
}

fn both_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Both)?;
    settle();
    record_events(record, "both shut down", &client);
    server.shutdown(Shutdown::Write)?;
    settle();
    record_events(record, "over", &client);
    record_events(record, "the peer", &server);
    Ok(())
}

fn peer_closed(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    drop(client);
    settle();
    record_events(record, "closed", &server);
    server.shutdown(Shutdown::Write)?;
    settle();
    record_events(record, "over", &server);
    Ok(())
}

fn reset(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    sys::set_linger(&client, Some(0))?;
    drop(client);
    settle();
    record_events(record, "reset", &server);
    record.add("error", server.take_error());
    record_events(record, "error taken", &server);
    Ok(())
}

fn written_after_close(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    drop(client);
    settle();
    write(&server, b"never read")?;
    settle();
    record_events(record, "answered by a reset", &server);
    Ok(())
}

fn refused(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    let address = ip.silent_address()?;
    record.add("connect", sys::connect(&socket, Some(address)));
    settle();
    record_events(record, "refused", &socket);
    record.add("error", socket.take_error());
    record_events(record, "error taken", &socket);
    Ok(())
}

/// A connection whose handshake is not complete, since the accept queue is full.
fn connecting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let client = ip.stream_socket()?;
    sys::set_nonblocking(&client, true)?;
    record.add("connect", sys::connect(&client, Some(address)));
    settle();
    record_events(record, "connecting", &client);
    Ok(())
}

fn listener_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, _) = ip.listener()?;
    record.add("shutdown", sys::shutdown(&listener, sys::SHUT_RD));
    record_events(record, "shut down", &listener);
    Ok(())
}

/// Errors and hang-ups are reported even if not requested.
fn nothing_asked(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    settle();
    record.add("data", show(&server, 0));
    record.add("data, only writing asked", show(&server, sys::POLLOUT));
    client.shutdown(Shutdown::Write)?;
    settle();
    record.add("end", show(&server, 0));
    server.shutdown(Shutdown::Write)?;
    settle();
    record.add("over", show(&server, 0));
    record.add("fresh", show(&ip.stream_socket()?, 0));
    Ok(())
}
