//! Connections that nobody has accepted yet.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Ip, read, settle, takes, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 12] = [
    ("order", Check::Versions(order)),
    ("data_before_accept", Check::Versions(data_before_accept)),
    ("closed_before_accept", Check::Versions(closed_before_accept)),
    ("reset_before_accept", Check::Versions(reset_before_accept)),
    ("listener_closed", Check::Versions(listener_closed)),
    ("of_0_takes_one", Check::Versions(of_0_takes_one)),
    ("of_3_takes_four", Check::Versions(of_3_takes_four)),
    ("negative_is_large", Check::Versions(negative_is_large)),
    ("room_after_accept", Check::Versions(room_after_accept)),
    ("changed_while_listening", Check::Versions(changed_while_listening)),
    ("a_hundred_wait", Check::Versions(a_hundred_wait)),
    ("accept_in_turns", Check::Versions(accept_in_turns)),
];

/// Connects until somebody has to wait for a place; gives how many did not.
fn places(listener: &TcpListener, most: usize) -> io::Result<(usize, Vec<TcpStream>)> {
    let address = listener.local_addr()?;
    let mut clients = Vec::new();
    while clients.len() < most {
        let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(150)) else { break };
        clients.push(client);
        settle();
    }
    Ok((clients.len(), clients))
}

fn order(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let clients = [(); 3].map(|()| TcpStream::connect(address));
    for client in clients {
        let accepted = listener.accept()?.1;
        notes.add("in order", accepted == client?.local_addr()?);
    }
    Ok(())
}

fn data_before_accept(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    notes.add("write", write(&client, b"early"));
    settle();
    let (server, _) = listener.accept()?;
    notes.add("read", read(&server));
    Ok(())
}

fn closed_before_accept(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    write(&client, b"bye")?;
    drop(client);
    settle();
    let (server, _) = listener.accept()?;
    notes.add("read", read(&server));
    notes.add("read", read(&server));
    notes.add("error", server.take_error());
    Ok(())
}

fn reset_before_accept(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    sys::set_linger(&client, Some(0))?;
    drop(client);
    settle();
    listener.set_nonblocking(true)?;
    let server = listener.accept();
    notes.add("accept", server.as_ref().map(drop).map_err(|error| io::Error::from(error.kind())));
    if let Ok((server, _)) = server {
        notes.add("read", read(&server));
        notes.add("read", read(&server));
        notes.add("peer", server.peer_addr());
    }
    Ok(())
}

fn listener_closed(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let (one, other) = (TcpStream::connect(address)?, TcpStream::connect(address)?);
    write(&other, b"unread")?;
    drop(listener);
    settle();
    notes.add("one reads", read(&one));
    notes.add("other reads", read(&other));
    notes.add("one reads again", read(&one));
    notes.add("one writes", write(&one, b"a"));
    Ok(())
}

fn of_0_takes_one(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("places", places(&ip.listener_with(0)?, 8)?.0);
    Ok(())
}

fn of_3_takes_four(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("places", places(&ip.listener_with(3)?, 8)?.0);
    Ok(())
}

fn negative_is_large(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("places of 8", places(&ip.listener_with(-1)?, 8)?.0);
    Ok(())
}

fn room_after_accept(notes: &mut Notes, ip: Ip) -> Outcome {
    let listener = ip.listener_with(0)?;
    let address = listener.local_addr()?;
    let (_, mut clients) = places(&listener, 8)?;
    let _accepted = listener.accept()?;
    let (client, time) =
        takes(Duration::ZERO, || TcpStream::connect_timeout(&address, Duration::from_secs(4)));
    clients.push(client?);
    notes.add("connect", time);
    notes.add("accept", listener.accept().map(|_| ()));
    Ok(())
}

/// Listening again changes how many may wait.
fn changed_while_listening(notes: &mut Notes, ip: Ip) -> Outcome {
    let listener = ip.listener_with(0)?;
    notes.add("listen", sys::listen(&listener, 2));
    notes.add("places", places(&listener, 8)?.0);
    Ok(())
}

/// std asks for 128.
fn a_hundred_wait(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("right ones", right);
    Ok(())
}

fn accept_in_turns(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let mut echoed = 0;
    for number in 0..200_u8 {
        let client = TcpStream::connect(address)?;
        write(&client, &[number])?;
        let (server, _) = listener.accept()?;
        write(&server, &read(&server)?)?;
        echoed += usize::from(read(&client)? == [number]);
    }
    notes.add("echoed of 200", echoed);
    Ok(())
}
