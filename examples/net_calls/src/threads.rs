//! Sockets that several threads use at the same time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;

use crate::notes::Notes;
use crate::support::{Ip, join, read, receive, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 9] = [
    ("accept_waits", Check::Versions(accept_waits)),
    ("several_accept", Check::Versions(several_accept)),
    ("some_give_up", Check::Versions(some_give_up)),
    ("several_read", Check::Versions(several_read)),
    ("several_write", Check::Versions(several_write)),
    ("several_receive", Check::Versions(several_receive)),
    ("read_and_write", Check::Versions(read_and_write)),
    ("many_connect", Check::Versions(many_connect)),
    ("echo_server", Check::Versions(echo_server)),
];

fn accept_waits(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept());
        settle();
        let client = TcpStream::connect(address)?;
        let (_, peer) = join(accepting)?;
        notes.add("accepted", peer == client.local_addr()?);
        Ok(())
    })
}

/// Each connection goes to one of those who wait.
fn several_accept(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("each once", accepted);
    Ok(())
}

/// Answers everybody until there is an error, even if nobody comes for a while.
fn answer_all(listener: &TcpListener) -> io::Result<io::Error> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => _ = write(&stream, &read(&stream)?)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
            Err(error) => return Ok(error),
        }
    }
}

/// Some who wait give up: no connection is left to nobody, and in the end all learn that it is the end.
fn some_give_up(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let limit = |microseconds| sys::set_limit(listener.as_fd(), sys::Limit::Receive, 0, microseconds);
    limit(1_000)?;
    notes.add("alone", listener.accept().map(drop));
    limit(0)?;
    thread::scope(|scope| {
        let accepting = [(); 8].map(|()| scope.spawn(|| answer_all(&listener)));
        settle();
        let mut answered = 0;
        for number in 0..200_u8 {
            if number == 100 {
                limit(1_000)?;
            }
            let client = TcpStream::connect(address)?;
            write(&client, &[number])?;
            answered += usize::from(read(&client)? == [number]);
        }
        notes.add("answered of 200", answered);
        limit(0)?;
        settle();
        sys::shutdown(&listener, sys::SHUT_RDWR)?;
        let ends: Vec<io::Error> = accepting.into_iter().map(join).collect::<Result<_, _>>()?;
        let told = ends.iter().filter(|error| error.kind() == io::ErrorKind::InvalidInput).count();
        notes.add("told of 8", told);
        Ok(())
    })
}

/// Reads up to the end, and gives how many bytes it got.
fn drain(stream: &TcpStream) -> io::Result<usize> {
    let mut total = 0;
    loop {
        match read(stream)?.len() {
            0 => return Ok(total),
            size => total += size,
        }
    }
}

fn several_read(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let total = thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(|| drain(&server)));
        for _ in 0..500 {
            write(&client, b"0123456789")?;
        }
        client.shutdown(Shutdown::Write)?;
        readers.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    notes.add("bytes in all", total);
    Ok(())
}

/// Nothing is lost, whoever writes it; small writes stay whole.
fn several_write(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("whole lines", text.split(|byte| *byte == b'\n').filter(whole).count());
    notes.add("bytes", text.len());
    Ok(())
}

/// Receives datagrams until an empty one, and gives how many there were.
fn receive_all(socket: &UdpSocket) -> io::Result<usize> {
    let mut count = 0;
    while !receive(socket)?.is_empty() {
        count += 1;
    }
    Ok(count)
}

fn several_receive(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let total = thread::scope(|scope| {
        let receivers = [(); 3].map(|()| scope.spawn(|| receive_all(&other)));
        for _ in 0..60 {
            one.send(b"data")?;
            thread::yield_now();
        }
        // An empty one for each of them is the end.
        for _ in 0..receivers.len() {
            one.send(b"")?;
        }
        receivers.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    notes.add("datagrams in all", total);
    Ok(())
}

/// One thread waits for data in a connection through which another one writes.
fn read_and_write(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(&client));
        settle();
        notes.add("write", write(&client, b"question"));
        notes.add("server reads", read(&server));
        write(&server, b"answer")?;
        notes.add("reader", join(reader));
        Ok(())
    })
}

fn many_connect(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("echoed of 32", echoed);
    Ok(())
}

/// Gives back what comes until the end.
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

/// A thread for each connection, eight connections at a time, each with many messages.
fn echo_server(notes: &mut Notes, ip: Ip) -> Outcome {
    let listener = TcpListener::bind(ip.loopback(0))?;
    let address = listener.local_addr()?;
    let right = thread::scope(|scope| {
        scope.spawn(move || serve(&listener));
        let clients: Vec<_> = (0..8_u8).map(|seed| scope.spawn(move || converse(address, seed))).collect();
        clients.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    notes.add("right answers of 800", right);
    Ok(())
}

/// Sends a hundred messages and counts the right answers.
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
