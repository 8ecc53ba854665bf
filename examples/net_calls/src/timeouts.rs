//! Time limits, and what it is called when one passes.

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Ip, fill, join, peek, read, receive, settle, takes, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 15] = [
    ("settings", Check::Versions(settings)),
    ("settings_of_datagrams", Check::Versions(settings_of_datagrams)),
    ("zero", Check::Versions(zero)),
    ("very_short", Check::Versions(very_short)),
    ("very_long", Check::Versions(very_long)),
    ("read", Check::Versions(read_limit)),
    ("peek", Check::Versions(peek_limit)),
    ("write", Check::Versions(write_limit)),
    ("write_to_a_slow_reader", Check::Versions(write_to_a_slow_reader)),
    ("accept", Check::Versions(accept_limit)),
    ("receive", Check::Versions(receive_limit)),
    ("in_time", Check::Versions(in_time)),
    ("read_exact", Check::Versions(read_exact)),
    ("shared_by_clones", Check::Versions(shared_by_clones)),
    ("bad_values", Check::Versions(bad_values)),
];

const LIMIT: Duration = Duration::from_millis(80);
const SECOND: Duration = Duration::from_secs(1);

fn settings(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("read", client.read_timeout());
    notes.add("write", client.write_timeout());
    client.set_read_timeout(Some(SECOND))?;
    notes.add("read", client.read_timeout());
    notes.add("write", client.write_timeout());
    client.set_write_timeout(Some(2 * SECOND))?;
    notes.add("write", client.write_timeout());
    client.set_read_timeout(None)?;
    notes.add("read", client.read_timeout());
    notes.add("write", client.write_timeout());
    Ok(())
}

fn settings_of_datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    notes.add("read", socket.read_timeout());
    notes.add("write", socket.write_timeout());
    socket.set_read_timeout(Some(SECOND))?;
    socket.set_write_timeout(Some(Duration::from_millis(1500)))?;
    notes.add("read", socket.read_timeout());
    notes.add("write", socket.write_timeout());
    socket.set_write_timeout(None)?;
    notes.add("write", socket.write_timeout());
    Ok(())
}

fn zero(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("read", client.set_read_timeout(Some(Duration::ZERO)));
    notes.add("write", client.set_write_timeout(Some(Duration::ZERO)));
    let (socket, _) = ip.datagrams()?;
    notes.add("datagrams", socket.set_read_timeout(Some(Duration::ZERO)));
    notes.add("unchanged", client.read_timeout());
    Ok(())
}

/// How it is rounded depends on the system's clock; never to none.
fn very_short(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("set", client.set_read_timeout(Some(Duration::from_nanos(1))));
    notes.add("there is one", client.read_timeout()?.is_some_and(|limit| limit < Duration::from_millis(100)));
    let (result, time) = takes(Duration::ZERO, || read(&client));
    notes.add("read", result);
    notes.add("it ends", time);
    Ok(())
}

fn very_long(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("set", client.set_read_timeout(Some(Duration::MAX)));
    write(&server, b"data")?;
    notes.add("read", read(&client));
    notes.add("a year", client.set_read_timeout(Some(31_536_000 * SECOND)));
    notes.add("then", client.read_timeout());
    Ok(())
}

fn read_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    for _ in 0..2 {
        let (result, time) = takes(LIMIT, || read(&client));
        notes.add("read", result);
        notes.add("it ends", time);
    }
    write(&server, b"data")?;
    notes.add("read", read(&client));
    drop(server);
    notes.add("end", read(&client));
    Ok(())
}

fn peek_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    let (result, time) = takes(LIMIT, || peek(&client));
    notes.add("peek", result);
    notes.add("it ends", time);
    Ok(())
}

fn write_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    fill(&client)?;
    client.set_write_timeout(Some(LIMIT))?;
    let (result, time) = takes(LIMIT, || write(&client, b"does not fit"));
    notes.add("write", result);
    notes.add("it ends", time);
    // What was taken before the limit counts.
    let (client, _server) = ip.pair()?;
    client.set_write_timeout(Some(LIMIT))?;
    let much = vec![0; 64 << 20];
    let (result, time) = takes(LIMIT, || write(&client, &much));
    notes.add("a part was taken", result.is_ok_and(|size| size > 0 && size < much.len()));
    notes.add("it ends", time);
    Ok(())
}

/// The limit is one of the whole call: it does not begin anew whenever a part was taken.
fn write_to_a_slow_reader(notes: &mut Notes, ip: Ip) -> Outcome {
    /// Reads at most, which take a lot longer than the limit.
    const MOST: u32 = 100;
    let (client, mut server) = ip.small_pair()?;
    client.set_write_timeout(Some(LIMIT))?;
    let much = vec![0; 8 << 20];
    let mut buffer = vec![0; 32 << 10];
    let (size, reads) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&client, &much));
        let mut reads = 0;
        while reads < MOST && !writer.is_finished() {
            reads += u32::from(server.read(&mut buffer)? > 0);
            thread::sleep(LIMIT / 4);
        }
        Ok::<_, std::io::Error>((join(writer)?, reads))
    })?;
    notes.add("a part was taken", size > 0 && size < much.len());
    notes.add("it ends before the reader does", reads < MOST);
    Ok(())
}

/// std has no call to set it for a listener.
fn accept_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    sys::set_limit(listener.as_fd(), sys::Limit::Receive, 0, 80_000)?;
    let accept = |listener: &TcpListener| listener.accept().map(drop);
    let (result, time) = takes(LIMIT, || accept(&listener));
    notes.add("accept", result);
    notes.add("it ends", time);
    let _client = TcpStream::connect(address)?;
    notes.add("somebody", accept(&listener));
    Ok(())
}

fn receive_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    other.set_read_timeout(Some(LIMIT))?;
    let mut buffer = [0; 8];
    let calls: [(&str, &mut dyn FnMut() -> std::io::Result<()>); 4] = [
        ("receive", &mut || receive(&other).map(drop)),
        ("from", &mut || other.recv_from(&mut [0; 8]).map(drop)),
        ("peek", &mut || other.peek(&mut [0; 8]).map(drop)),
        ("peek from", &mut || other.peek_from(&mut buffer).map(drop)),
    ];
    for (name, call) in calls {
        let (result, time) = takes(LIMIT, call);
        notes.add(name, result);
        notes.add("it ends", time);
    }
    one.send(b"data")?;
    notes.add("received", receive(&other));
    Ok(())
}

fn in_time(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.set_read_timeout(Some(20 * SECOND))?;
    let (result, time) = takes(Duration::ZERO, || {
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(&client));
            settle();
            write(&server, b"data")?;
            join(reader)
        })
    });
    notes.add("read", result);
    notes.add("it ends", time);
    Ok(())
}

fn read_exact(notes: &mut Notes, ip: Ip) -> Outcome {
    let (mut client, server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    write(&server, b"abc")?;
    let mut five = [0; 5];
    notes.add("five of three", client.read_exact(&mut five));
    write(&server, b"de")?;
    notes.add("the rest", read(&client));
    drop(server);
    notes.add("five of none", client.read_exact(&mut five));
    Ok(())
}

fn shared_by_clones(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    client.try_clone()?.set_read_timeout(Some(SECOND))?;
    notes.add("stream", client.read_timeout());
    let (socket, _) = ip.datagrams()?;
    socket.try_clone()?.set_write_timeout(Some(SECOND))?;
    notes.add("datagrams", UdpSocket::write_timeout(&socket));
    Ok(())
}

fn bad_values(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    let set = |seconds, part| sys::set_limit(&client, sys::Limit::Receive, seconds, part);
    notes.add("too many microseconds", set(0, 1_000_000));
    notes.add("negative microseconds", set(0, -1));
    notes.add("unchanged", client.read_timeout());
    notes.add("negative seconds", set(-1, 0));
    let (result, time) = takes(Duration::ZERO, || read(&client));
    notes.add("read", result);
    notes.add("it ends", time);
    notes.add("too short", sys::set_short_option(&client, sys::RECEIVE_LIMIT));
    Ok(())
}
