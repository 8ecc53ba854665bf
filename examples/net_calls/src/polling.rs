//! What poll says of streams and listeners in each of their states.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;

use crate::events::{EVERYTHING, show};
use crate::notes::Notes;
use crate::support::{Ip, drain, fill, read, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 18] = [
    ("fresh", Check::Versions(fresh)),
    ("bound", Check::Versions(bound)),
    ("listener", Check::Versions(listener)),
    ("connected", Check::Versions(connected)),
    ("data", Check::Versions(data)),
    ("full", Check::Versions(full)),
    ("peer_shut_down", Check::Versions(peer_shut_down)),
    ("peer_shut_down_with_data", Check::Versions(peer_shut_down_with_data)),
    ("own_shut_down", Check::Versions(own_shut_down)),
    ("read_shut_down", Check::Versions(read_shut_down)),
    ("both_shut_down", Check::Versions(both_shut_down)),
    ("peer_closed", Check::Versions(peer_closed)),
    ("reset", Check::Versions(reset)),
    ("written_after_close", Check::Versions(written_after_close)),
    ("refused", Check::Versions(refused)),
    ("connecting", Check::Versions(connecting)),
    ("listener_shut_down", Check::Versions(listener_shut_down)),
    ("nothing_asked", Check::Versions(nothing_asked)),
];

/// Notes all events there are.
fn note(notes: &mut Notes, what: &str, fd: impl AsFd) {
    notes.add(what, show(&fd, EVERYTHING));
}

fn fresh(notes: &mut Notes, ip: Ip) -> Outcome {
    note(notes, "fresh", ip.stream_socket()?);
    Ok(())
}

fn bound(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = ip.stream_socket()?;
    sys::bind(&socket, ip.loopback(0))?;
    note(notes, "bound", socket);
    Ok(())
}

fn listener(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    note(notes, "idle", &listener);
    let client = TcpStream::connect(address)?;
    settle();
    note(notes, "somebody waits", &listener);
    let _server = listener.accept()?;
    note(notes, "accepted", &listener);
    drop(client);
    settle();
    note(notes, "gone", &listener);
    Ok(())
}

fn connected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    note(notes, "client", client);
    settle();
    note(notes, "server of a closed client", server);
    Ok(())
}

fn data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    note(notes, "idle", &server);
    write(&client, b"data")?;
    settle();
    note(notes, "data", &server);
    read(&server)?;
    note(notes, "read", &server);
    Ok(())
}

fn full(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    note(notes, "full", &client);
    server.set_nonblocking(true)?;
    drain(&server, sent)?;
    note(notes, "drained", &client);
    Ok(())
}

fn peer_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    settle();
    note(notes, "unread", &server);
    read(&server)?;
    note(notes, "end read", &server);
    note(notes, "who shut down", &client);
    Ok(())
}

fn peer_shut_down_with_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    client.shutdown(Shutdown::Write)?;
    settle();
    note(notes, "unread", &server);
    read(&server)?;
    note(notes, "data read", &server);
    Ok(())
}

fn own_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    settle();
    note(notes, "write shut down", &client);
    Ok(())
}

fn read_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Read)?;
    settle();
    note(notes, "read shut down", &client);
    note(notes, "the peer", &server);
    Ok(())
}

fn both_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Both)?;
    settle();
    note(notes, "both shut down", &client);
    server.shutdown(Shutdown::Write)?;
    settle();
    note(notes, "over", &client);
    note(notes, "the peer", &server);
    Ok(())
}

fn peer_closed(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    drop(client);
    settle();
    note(notes, "closed", &server);
    server.shutdown(Shutdown::Write)?;
    settle();
    note(notes, "over", &server);
    Ok(())
}

fn reset(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    sys::set_linger(&client, Some(0))?;
    drop(client);
    settle();
    note(notes, "reset", &server);
    notes.add("error", server.take_error());
    note(notes, "error taken", &server);
    Ok(())
}

fn written_after_close(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    drop(client);
    settle();
    write(&server, b"nobody reads this")?;
    settle();
    note(notes, "answered by a reset", &server);
    Ok(())
}

fn refused(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    let address = ip.silent_address()?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    settle();
    note(notes, "refused", &socket);
    notes.add("error", socket.take_error());
    note(notes, "error taken", &socket);
    Ok(())
}

/// A connection for which there is no place yet.
fn connecting(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let client = ip.stream_socket()?;
    sys::set_nonblocking(&client, true)?;
    notes.add("connect", sys::connect(&client, Some(address)));
    settle();
    note(notes, "connecting", &client);
    Ok(())
}

fn listener_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, _) = ip.listener()?;
    notes.add("shutdown", sys::shutdown(&listener, sys::SHUT_RD));
    note(notes, "shut down", &listener);
    Ok(())
}

/// Errors and hang-ups are told whether or not somebody asks.
fn nothing_asked(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    settle();
    notes.add("data", show(&server, 0));
    notes.add("data, only writing asked", show(&server, sys::POLLOUT));
    client.shutdown(Shutdown::Write)?;
    settle();
    notes.add("end", show(&server, 0));
    server.shutdown(Shutdown::Write)?;
    settle();
    notes.add("over", show(&server, 0));
    notes.add("fresh", show(&ip.stream_socket()?, 0));
    Ok(())
}
