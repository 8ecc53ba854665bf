//! Established streams: data arrives unchanged.

use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::record::Transcript;
use crate::support::{IpVersion, join, peek, read, settle, write};
use crate::{Check, CheckResult, NamedCheck};

pub(crate) const ROWS: [NamedCheck; 13] = [
    ("echo", Check::PerVersion(echo)),
    ("empty_read_and_write", Check::PerVersion(empty)),
    ("peek", Check::PerVersion(peeking)),
    ("peek_waits", Check::PerVersion(peek_waits)),
    ("vectored", Check::PerVersion(vectored)),
    ("pieces_join", Check::PerVersion(pieces_join)),
    ("short_reads", Check::PerVersion(short_reads)),
    ("lines", Check::PerVersion(lines)),
    ("end_after_data", Check::PerVersion(end_after_data)),
    ("clone_is_the_same", Check::PerVersion(clone_is_the_same)),
    ("clone_keeps_open", Check::PerVersion(clone_keeps_open)),
    ("listener_clone", Check::PerVersion(listener_clone)),
    ("incoming", Check::PerVersion(incoming)),
];

fn echo(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("client writes", write(&client, b"question"));
    record.add("server reads", read(&server));
    record.add("server writes", write(&server, b"answer"));
    record.add("client reads", read(&client));
    record.add("flush", (&client).flush());
    Ok(())
}

/// A read into an empty buffer blocks until there is data.
fn empty(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, mut server) = ip.pair()?;
    record.add("write of nothing", client.write(b""));
    client.write_all(b"a")?;
    record.add("read into nothing", server.read(&mut []));
    settle();
    record.add("peek into nothing", server.peek(&mut []));
    record.add("read", read(&server));
    drop(client);
    record.add("read into nothing at the end", server.read(&mut []));
    record.add("write of nothing at the end", server.write(b""));
    Ok(())
}

fn peeking(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, server) = ip.pair()?;
    client.write_all(b"abcdef")?;
    settle();
    record.add("peek", peek(&server));
    let mut few = [0; 2];
    record.add("peek two", server.peek(&mut few));
    record.add("two", few.to_vec());
    record.add("again", peek(&server));
    record.add("read", read(&server));
    drop(client);
    record.add("peek at the end", peek(&server));
    record.add("read at the end", read(&server));
    Ok(())
}

fn peek_waits(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let found = thread::scope(|scope| {
        let peeker = scope.spawn(|| peek(&server));
        settle();
        write(&client, b"late")?;
        join(peeker)
    });
    record.add("peek", found);
    record.add("read", read(&server));
    Ok(())
}

fn vectored(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, mut server) = ip.pair()?;
    let parts = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"three")];
    record.add("write", client.write_vectored(&parts));
    settle();
    let (mut small, mut large) = ([0; 2], [0; 64]);
    let size = server.read_vectored(&mut [IoSliceMut::new(&mut small), IoSliceMut::new(&mut large)]);
    record.add("read", size);
    record.add("first", small.to_vec());
    record.add("second", large.split_at(6).0.to_vec());
    record.add("write of no parts", client.write_vectored(&[]));
    record.add("read into no parts", server.read_vectored(&mut []));
    Ok(())
}

fn pieces_join(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.set_nodelay(true)?;
    for piece in [b"one", b"two", b"six"] {
        write(&client, piece)?;
    }
    settle();
    record.add("read", read(&server));
    Ok(())
}

fn short_reads(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, mut server) = ip.pair()?;
    write(&client, b"abcdefg")?;
    settle();
    let mut three = [0; 3];
    for what in ["first", "second", "third"] {
        let size = server.read(&mut three)?;
        record.add(what, three.split_at(size).0.to_vec());
    }
    Ok(())
}

fn lines(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, server) = ip.pair()?;
    client.write_all(b"first\nsecond\nunfinished")?;
    client.shutdown(Shutdown::Write)?;
    let lines: Result<Vec<String>, _> = BufReader::new(server).lines().collect();
    record.add("lines", lines?.join("|"));
    Ok(())
}

fn end_after_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, mut server) = ip.pair()?;
    client.write_all(b"last words")?;
    drop(client);
    let mut text = Vec::new();
    record.add("read to end", server.read_to_end(&mut text));
    record.add("text", text);
    record.add("read again", read(&server));
    record.add("and again", read(&server));
    Ok(())
}

fn clone_is_the_same(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let clone = client.try_clone()?;
    record.add("same local address", clone.local_addr()? == client.local_addr()?);
    record.add("same peer", clone.peer_addr()? == client.peer_addr()?);
    clone.set_nodelay(true)?;
    record.add("option set by the clone", client.nodelay());
    write(&client, b"one")?;
    write(&clone, b"two")?;
    settle();
    record.add("server reads", read(&server));
    write(&server, b"answer")?;
    settle();
    record.add("clone peeks", peek(&clone));
    record.add("original reads", read(&client));
    Ok(())
}

fn clone_keeps_open(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let clone = client.try_clone()?;
    drop(client);
    settle();
    server.set_nonblocking(true)?;
    record.add("server reads", read(&server));
    record.add("clone writes", write(&clone, b"still here"));
    settle();
    record.add("server reads", read(&server));
    drop(clone);
    settle();
    record.add("server reads after the last", read(&server));
    Ok(())
}

fn listener_clone(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let clone = listener.try_clone()?;
    drop(listener);
    let client = TcpStream::connect(address)?;
    let (server, _) = clone.accept()?;
    write(&client, b"hello")?;
    record.add("server reads", read(&server));
    drop(clone);
    record.add("connect after the last", TcpStream::connect(address).map(drop));
    Ok(())
}

fn incoming(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let listener = TcpListener::bind(ip.loopback(0))?;
    let address = listener.local_addr()?;
    let mut clients = Vec::new();
    for number in 0..3_u8 {
        let client = TcpStream::connect(address)?;
        write(&client, &[b'a' + number])?;
        clients.push(client);
    }
    for server in listener.incoming().take(3) {
        record.add("next", read(&server?));
    }
    Ok(())
}
