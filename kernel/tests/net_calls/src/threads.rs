//! Sockets that are used by several threads at once.
//!
//! Several threads wait in the same call on one socket. Each event must wake a thread that can use it, and no
//! event may be lost when a woken thread gives up. The rows print only results that do not depend on the
//! order of the threads.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;

use crate::record::Transcript;
use crate::support::{IpVersion, join, read, receive, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 9] = [
    ("accept_waits", Check::PerVersion(accept_waits)),
    ("several_accept", Check::PerVersion(several_accept)),
    ("some_give_up", Check::PerVersion(some_give_up)),
    ("several_read", Check::PerVersion(several_read)),
    ("several_write", Check::PerVersion(several_write)),
    ("several_receive", Check::PerVersion(several_receive)),
    ("read_and_write", Check::PerVersion(read_and_write)),
    ("many_connect", Check::PerVersion(many_connect)),
    ("echo_server", Check::PerVersion(echo_server)),
];

fn accept_waits(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept());
        settle();
        let client = TcpStream::connect(address)?;
        let (_, peer) = join(accepting)?;
        record.add("accepted", peer == client.local_addr()?);
        Ok(())
    })
}

/// Each connection is accepted by one of the waiting threads.
fn several_accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let accepted = thread::scope(|scope| {
        let accepting = [(); 4].map(|()| scope.spawn(|| listener.accept().map(|(stream, _)| stream)));
        settle();
        let clients: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        let servers: Vec<TcpStream> = accepting.into_iter().map(join).collect::<Result<_, _>>()?;
        let mut peers = servers.iter().map(TcpStream::peer_addr).collect::<Result<Vec<_>, _>>()?;
        let mut locals = clients.iter().map(TcpStream::local_addr).collect::<Result<Vec<_>, _>>()?;
        peers.sort_unstable();
        locals.sort_unstable();
        Ok::<_, io::Error>(peers == locals)
    })?;
    record.add("each once", accepted);
    Ok(())
}

/// Serves connections until `accept` fails, other than by a timeout.
fn answer_all(listener: &TcpListener) -> io::Result<io::Error> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                // The timeout is inherited from the listener.
                stream.set_read_timeout(None)?;
                write(&stream, &read(&stream)?)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
            Err(error) => return Ok(error),
        }
    }
}

/// Some waiting threads time out. Nevertheless, each connection is accepted, and in the end all threads get
/// the error.
fn some_give_up(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let limit = |microseconds| sys::set_timeout(listener.as_fd(), sys::Timeout::Receive, 0, microseconds);
    limit(1_000)?;
    record.add("alone", listener.accept().map(drop));
    limit(0)?;
    thread::scope(|scope| {
        let accepting = [(); 8].map(|()| scope.spawn(|| answer_all(&listener)));
        settle();
        let ask = |number| {
            if number == 100 {
                limit(1_000)?;
            }
            let client = TcpStream::connect(address)?;
            write(&client, &[number])?;
            Ok(usize::from(read(&client)? == [number]))
        };
        let answered = (0..200).map(ask).sum::<io::Result<usize>>();
        limit(0)?;
        settle();
        // The listener is shut down before an error of a client can end the row. Otherwise the threads would
        // not end.
        sys::shutdown(&listener, sys::SHUT_RDWR)?;
        record.add("answered of 200", answered?);
        let ends: Vec<io::Error> = accepting.into_iter().map(join).collect::<Result<_, _>>()?;
        let errors = ends.iter().filter(|error| error.kind() == io::ErrorKind::InvalidInput).count();
        record.add("errors of 8", errors);
        Ok(())
    })
}

/// Reads until the end of the stream; returns the number of bytes.
fn drain(stream: &TcpStream) -> io::Result<usize> {
    let mut total = 0;
    loop {
        match read(stream)?.len() {
            0 => return Ok(total),
            size => total += size,
        }
    }
}

fn several_read(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let total = thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(|| drain(&server)));
        for _ in 0..500 {
            write(&client, b"0123456789")?;
        }
        client.shutdown(Shutdown::Write)?;
        readers.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    record.add("bytes in all", total);
    Ok(())
}

/// No byte is lost whichever thread writes it; small writes are not interleaved.
fn several_write(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, mut server) = ip.pair()?;
    let text = thread::scope(|scope| {
        let client = &client;
        let writers = [b'a', b'b', b'c'].map(|letter| {
            scope.spawn(move || {
                let line = [letter, letter, letter, b'\n'];
                (0..300).try_for_each(|_| (&mut &*client).write_all(&line))
            })
        });
        let mut text = Vec::new();
        let reader = scope.spawn(move || server.read_to_end(&mut text).map(|_| text));
        writers.into_iter().try_for_each(join)?;
        client.shutdown(Shutdown::Write)?;
        join(reader)
    })?;
    let whole = |line: &&[u8]| [&b"aaa"[..], b"bbb", b"ccc"].contains(line);
    record.add("whole lines", text.split(|byte| *byte == b'\n').filter(whole).count());
    record.add("bytes", text.len());
    Ok(())
}

/// Receives datagrams until an empty one; returns their number.
fn receive_all(socket: &UdpSocket) -> io::Result<usize> {
    let mut count = 0;
    while !receive(socket)?.is_empty() {
        count += 1;
    }
    Ok(count)
}

fn several_receive(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let total = thread::scope(|scope| {
        let receivers = [(); 3].map(|()| scope.spawn(|| receive_all(&other)));
        for _ in 0..60 {
            one.send(b"data")?;
            thread::yield_now();
        }
        // An empty datagram for each thread is the end.
        for _ in 0..receivers.len() {
            one.send(b"")?;
        }
        receivers.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    record.add("datagrams in all", total);
    Ok(())
}

/// One thread waits for data on a connection while another one writes to it.
fn read_and_write(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(&client));
        settle();
        record.add("write", write(&client, b"question"));
        record.add("server reads", read(&server));
        write(&server, b"answer")?;
        record.add("reader", join(reader));
        Ok(())
    })
}

fn many_connect(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let echoed = thread::scope(|scope| {
        let clients: Vec<_> = (0..32_u8)
            .map(|number| {
                scope.spawn(move || {
                    let client = TcpStream::connect(address)?;
                    write(&client, &[number])?;
                    Ok(usize::from(read(&client)? == [number]))
                })
            })
            .collect();
        for _ in 0..32 {
            let (server, _) = listener.accept()?;
            write(&server, &read(&server)?)?;
        }
        clients.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    record.add("echoed of 32", echoed);
    Ok(())
}

/// Echoes until the end of the stream.
fn echo(stream: &TcpStream) -> io::Result<()> {
    loop {
        let bytes = read(stream)?;
        if bytes.is_empty() {
            return Ok(());
        }
        (&mut &*stream).write_all(&bytes)?;
    }
}

fn serve(listener: &TcpListener) {
    thread::scope(|scope| {
        for stream in listener.incoming().take(8).flatten() {
            scope.spawn(move || echo(&stream));
        }
    });
}

/// A thread per connection, eight connections at a time, each with many messages.
fn echo_server(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let listener = TcpListener::bind(ip.loopback(0))?;
    let address = listener.local_addr()?;
    let right = thread::scope(|scope| {
        scope.spawn(move || serve(&listener));
        let clients: Vec<_> = (0..8_u8).map(|seed| scope.spawn(move || converse(address, seed))).collect();
        clients.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    record.add("right answers of 800", right);
    Ok(())
}

/// Sends a hundred messages; returns the number of correct responses.
fn converse(address: SocketAddr, seed: u8) -> io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut right = 0;
    for round in 0..100_u8 {
        let message = [seed, round, seed ^ round];
        stream.write_all(&message)?;
        let mut answer = [0; 3];
        stream.read_exact(&mut answer)?;
        right += usize::from(answer == message);
    }
    Ok(right)
}
