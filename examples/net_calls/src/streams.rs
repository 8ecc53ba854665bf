//! Streams that work: what goes in comes out.

use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::notes::Notes;
use crate::support::{Ip, join, peek, read, settle, write};
use crate::{Check, Outcome, Row};

pub(crate) const ROWS: [Row; 13] = [
    ("echo", Check::Versions(echo)),
    ("empty_read_and_write", Check::Versions(empty)),
    ("peek", Check::Versions(peeking)),
    ("peek_waits", Check::Versions(peek_waits)),
    ("vectored", Check::Versions(vectored)),
    ("pieces_join", Check::Versions(pieces_join)),
    ("short_reads", Check::Versions(short_reads)),
    ("lines", Check::Versions(lines)),
    ("end_after_data", Check::Versions(end_after_data)),
    ("clone_is_the_same", Check::Versions(clone_is_the_same)),
    ("clone_keeps_open", Check::Versions(clone_keeps_open)),
    ("listener_clone", Check::Versions(listener_clone)),
    ("incoming", Check::Versions(incoming)),
];

fn echo(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("client writes", write(&client, b"question"));
    notes.add("server reads", read(&server));
    notes.add("server writes", write(&server, b"answer"));
    notes.add("client reads", read(&client));
    notes.add("flush", (&client).flush());
    Ok(())
}

/// Reading into no room waits for data all the same.
fn empty(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, mut server) = ip.pair()?;
    notes.add("write of nothing", client.write(b""));
    client.write_all(b"a")?;
    notes.add("read into nothing", server.read(&mut []));
    settle();
    notes.add("peek into nothing", server.peek(&mut []));
    notes.add("read", read(&server));
    drop(client);
    notes.add("read into nothing at the end", server.read(&mut []));
    notes.add("write of nothing at the end", server.write(b""));
    Ok(())
}

fn peeking(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, server) = ip.pair()?;
    client.write_all(b"abcdef")?;
    settle();
    notes.add("peek", peek(&server));
    let mut few = [0; 2];
    notes.add("peek two", server.peek(&mut few));
    notes.add("two", few.to_vec());
    notes.add("again", peek(&server));
    notes.add("read", read(&server));
    drop(client);
    notes.add("peek at the end", peek(&server));
    notes.add("read at the end", read(&server));
    Ok(())
}

fn peek_waits(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let found = thread::scope(|scope| {
        let peeker = scope.spawn(|| peek(&server));
        settle();
        write(&client, b"late")?;
        join(peeker)
    });
    notes.add("peek", found);
    notes.add("read", read(&server));
    Ok(())
}

fn vectored(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, mut server) = ip.pair()?;
    let parts = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"three")];
    notes.add("write", client.write_vectored(&parts));
    settle();
    let (mut small, mut large) = ([0; 2], [0; 64]);
    let size = server.read_vectored(&mut [IoSliceMut::new(&mut small), IoSliceMut::new(&mut large)]);
    notes.add("read", size);
    notes.add("first", small.to_vec());
    notes.add("second", large.split_at(6).0.to_vec());
    notes.add("write of no parts", client.write_vectored(&[]));
    notes.add("read into no parts", server.read_vectored(&mut []));
    Ok(())
}

fn pieces_join(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.set_nodelay(true)?;
    for piece in [b"one", b"two", b"six"] {
        write(&client, piece)?;
    }
    settle();
    notes.add("read", read(&server));
    Ok(())
}

fn short_reads(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, mut server) = ip.pair()?;
    write(&client, b"abcdefg")?;
    settle();
    let mut three = [0; 3];
    for what in ["first", "second", "third"] {
        let size = server.read(&mut three)?;
        notes.add(what, three.split_at(size).0.to_vec());
    }
    Ok(())
}

fn lines(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, server) = ip.pair()?;
    client.write_all(b"first\nsecond\nunfinished")?;
    client.shutdown(Shutdown::Write)?;
    let lines: Result<Vec<String>, _> = BufReader::new(server).lines().collect();
    notes.add("lines", lines?.join("|"));
    Ok(())
}

fn end_after_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, mut server) = ip.pair()?;
    client.write_all(b"last words")?;
    drop(client);
    let mut text = Vec::new();
    notes.add("read to end", server.read_to_end(&mut text));
    notes.add("text", text);
    notes.add("read again", read(&server));
    notes.add("and again", read(&server));
    Ok(())
}

fn clone_is_the_same(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let clone = client.try_clone()?;
    notes.add("same local address", clone.local_addr()? == client.local_addr()?);
    notes.add("same peer", clone.peer_addr()? == client.peer_addr()?);
    clone.set_nodelay(true)?;
    notes.add("option set by the clone", client.nodelay());
    write(&client, b"one")?;
    write(&clone, b"two")?;
    settle();
    notes.add("server reads", read(&server));
    write(&server, b"answer")?;
    settle();
    notes.add("clone peeks", peek(&clone));
    notes.add("original reads", read(&client));
    Ok(())
}

fn clone_keeps_open(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let clone = client.try_clone()?;
    drop(client);
    settle();
    server.set_nonblocking(true)?;
    notes.add("server reads", read(&server));
    notes.add("clone writes", write(&clone, b"still here"));
    settle();
    notes.add("server reads", read(&server));
    drop(clone);
    settle();
    notes.add("server reads after the last", read(&server));
    Ok(())
}

fn listener_clone(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let clone = listener.try_clone()?;
    drop(listener);
    let client = TcpStream::connect(address)?;
    let (server, _) = clone.accept()?;
    write(&client, b"hello")?;
    notes.add("server reads", read(&server));
    drop(clone);
    notes.add("connect after the last", TcpStream::connect(address).map(drop));
    Ok(())
}

fn incoming(notes: &mut Notes, ip: Ip) -> Outcome {
    let listener = TcpListener::bind(ip.loopback(0))?;
    let address = listener.local_addr()?;
    let mut clients = Vec::new();
    for number in 0..3_u8 {
        let client = TcpStream::connect(address)?;
        write(&client, &[b'a' + number])?;
        clients.push(client);
    }
    for server in listener.incoming().take(3) {
        notes.add("next", read(&server?));
    }
    Ok(())
}
