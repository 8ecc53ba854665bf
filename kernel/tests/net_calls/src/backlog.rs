//! The accept queue: connections that have not been accepted yet.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, read, settle, takes, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 12] = [
    ("order", Check::PerVersion(order)),
    ("data_before_accept", Check::PerVersion(data_before_accept)),
    ("closed_before_accept", Check::PerVersion(closed_before_accept)),
    ("reset_before_accept", Check::PerVersion(reset_before_accept)),
    ("listener_closed", Check::PerVersion(listener_closed)),
    ("of_0_takes_one", Check::PerVersion(of_0_takes_one)),
    ("of_3_takes_four", Check::PerVersion(of_3_takes_four)),
    ("negative_is_large", Check::PerVersion(negative_is_large)),
    ("room_after_accept", Check::PerVersion(room_after_accept)),
    ("changed_while_listening", Check::PerVersion(changed_while_listening)),
    ("a_hundred_wait", Check::PerVersion(a_hundred_wait)),
    ("accept_in_turns", Check::PerVersion(accept_in_turns)),
];

/// Connects until a connection is not established at once; returns the number of established ones.
fn established_connections(listener: &TcpListener, max: usize) -> io::Result<(usize, Vec<TcpStream>)> {
    let address = listener.local_addr()?;
    let mut clients = Vec::new();
    while clients.len() < max {
        let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(150)) else { break };
        clients.push(client);
        settle();
    }
    Ok((clients.len(), clients))
}

fn order(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let clients = [(); 3].map(|()| TcpStream::connect(address));
    for client in clients {
        let accepted = listener.accept()?.1;
        record.add("in order", accepted == client?.local_addr()?);
    }
    Ok(())
}

fn data_before_accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    record.add("write", write(&client, b"early"));
    settle();
    let (server, _) = listener.accept()?;
    record.add("read", read(&server));
    Ok(())
}

fn closed_before_accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    write(&client, b"bye")?;
    drop(client);
    settle();
    let (server, _) = listener.accept()?;
    record.add("read", read(&server));
    record.add("read", read(&server));
    record.add("error", server.take_error());
    Ok(())
}

fn reset_before_accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    sys::set_linger(&client, Some(0))?;
    drop(client);
    settle();
    listener.set_nonblocking(true)?;
    let server = listener.accept();
    record.add("accept", server.as_ref().map(drop).map_err(|error| io::Error::from(error.kind())));
    if let Ok((server, _)) = server {
        record.add("read", read(&server));
        record.add("read", read(&server));
        record.add("peer", server.peer_addr());
    }
    Ok(())
}

fn listener_closed(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let (one, other) = (TcpStream::connect(address)?, TcpStream::connect(address)?);
    write(&other, b"unread")?;
    drop(listener);
    settle();
    record.add("one reads", read(&one));
    record.add("other reads", read(&other));
    record.add("one reads again", read(&one));
    record.add("one writes", write(&one, b"a"));
    Ok(())
}

fn of_0_takes_one(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("places", established_connections(&ip.listener_with(0)?, 8)?.0);
    Ok(())
}

fn of_3_takes_four(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("places", established_connections(&ip.listener_with(3)?, 8)?.0);
    Ok(())
}

fn negative_is_large(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("places of 8", established_connections(&ip.listener_with(-1)?, 8)?.0);
    Ok(())
}

fn room_after_accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let listener = ip.listener_with(0)?;
    let address = listener.local_addr()?;
    let (_, mut clients) = established_connections(&listener, 8)?;
    let _accepted = listener.accept()?;
    let (client, time) =
        takes(Duration::ZERO, || TcpStream::connect_timeout(&address, Duration::from_secs(4)));
    clients.push(client?);
    record.add("connect", time);
    record.add("accept", listener.accept().map(|_| ()));
    Ok(())
}

/// A second `listen` changes the backlog.
fn changed_while_listening(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let listener = ip.listener_with(0)?;
    record.add("listen", sys::listen(&listener, 2));
    record.add("places", established_connections(&listener, 8)?.0);
    Ok(())
}

/// std's backlog is 128.
fn a_hundred_wait(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let clients: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
    for (number, client) in clients.iter().enumerate() {
        write(client, number.to_string().as_bytes())?;
    }
    let mut right = 0;
    for number in 0..100_usize {
        let (server, _) = listener.accept()?;
        right += usize::from(read(&server)? == number.to_string().as_bytes());
    }
    record.add("right ones", right);
    Ok(())
}

fn accept_in_turns(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let mut echoed = 0;
    for number in 0..200_u8 {
        let client = TcpStream::connect(address)?;
        write(&client, &[number])?;
        let (server, _) = listener.accept()?;
        write(&server, &read(&server)?)?;
        echoed += usize::from(read(&client)? == [number]);
    }
    record.add("echoed of 200", echoed);
    Ok(())
}
