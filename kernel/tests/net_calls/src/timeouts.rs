//! Socket timeouts (`SO_RCVTIMEO`, `SO_SNDTIMEO`), and the errors when they expire.
//!
//! A call that waits longer than the timeout fails with `EAGAIN`, or returns the number of bytes that it has
//! transferred so far. The rows cover the values that can be set, the rounding when they are read back, and
//! each call that has a timeout. Durations are recorded as a word: in time, or too long.

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, fill, join, peek, read, receive, settle, takes, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 15] = [
    ("settings", Check::PerVersion(settings)),
    ("settings_of_datagrams", Check::PerVersion(settings_of_datagrams)),
    ("zero", Check::PerVersion(zero)),
    ("very_short", Check::PerVersion(very_short)),
    ("very_long", Check::PerVersion(very_long)),
    ("read", Check::PerVersion(read_limit)),
    ("peek", Check::PerVersion(peek_limit)),
    ("write", Check::PerVersion(write_limit)),
    ("write_to_a_slow_reader", Check::PerVersion(write_to_a_slow_reader)),
    ("accept", Check::PerVersion(accept_limit)),
    ("receive", Check::PerVersion(receive_limit)),
    ("in_time", Check::PerVersion(in_time)),
    ("read_exact", Check::PerVersion(read_exact)),
    ("shared_by_clones", Check::PerVersion(shared_by_clones)),
    ("bad_values", Check::PerVersion(bad_values)),
];

const LIMIT: Duration = Duration::from_millis(80);
const SECOND: Duration = Duration::from_secs(1);

fn settings(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("read", client.read_timeout());
    record.add("write", client.write_timeout());
    client.set_read_timeout(Some(SECOND))?;
    record.add("read", client.read_timeout());
    record.add("write", client.write_timeout());
    client.set_write_timeout(Some(2 * SECOND))?;
    record.add("write", client.write_timeout());
    client.set_read_timeout(None)?;
    record.add("read", client.read_timeout());
    record.add("write", client.write_timeout());
    Ok(())
}

fn settings_of_datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    record.add("read", socket.read_timeout());
    record.add("write", socket.write_timeout());
    socket.set_read_timeout(Some(SECOND))?;
    socket.set_write_timeout(Some(Duration::from_millis(1500)))?;
    record.add("read", socket.read_timeout());
    record.add("write", socket.write_timeout());
    socket.set_write_timeout(None)?;
    record.add("write", socket.write_timeout());
    Ok(())
}

fn zero(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("read", client.set_read_timeout(Some(Duration::ZERO)));
    record.add("write", client.set_write_timeout(Some(Duration::ZERO)));
    let (socket, _) = ip.datagrams()?;
    record.add("datagrams", socket.set_read_timeout(Some(Duration::ZERO)));
    record.add("unchanged", client.read_timeout());
    Ok(())
}

/// The rounding of a timeout depends on the system's clock tick. It is never rounded to none.
fn very_short(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("set", client.set_read_timeout(Some(Duration::from_nanos(1))));
    record
        .add("there is one", client.read_timeout()?.is_some_and(|limit| limit < Duration::from_millis(100)));
    let (result, time) = takes(Duration::ZERO, || read(&client));
    record.add("read", result);
    record.add("it ends", time);
    Ok(())
}

fn very_long(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("set", client.set_read_timeout(Some(Duration::MAX)));
    write(&server, b"data")?;
    record.add("read", read(&client));
    record.add("a year", client.set_read_timeout(Some(31_536_000 * SECOND)));
    record.add("then", client.read_timeout());
    Ok(())
}

fn read_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    for _ in 0..2 {
        let (result, time) = takes(LIMIT, || read(&client));
        record.add("read", result);
        record.add("it ends", time);
    }
    write(&server, b"data")?;
    record.add("read", read(&client));
    drop(server);
    record.add("end", read(&client));
    Ok(())
}

fn peek_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    let (result, time) = takes(LIMIT, || peek(&client));
    record.add("peek", result);
    record.add("it ends", time);
    Ok(())
}

fn write_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    fill(&client)?;
    client.set_write_timeout(Some(LIMIT))?;
    let (result, time) = takes(LIMIT, || write(&client, b"does not fit"));
    record.add("write", result);
    record.add("it ends", time);
    // Bytes accepted before the timeout are returned.
    let (client, _server) = ip.pair()?;
    client.set_write_timeout(Some(LIMIT))?;
    let much = vec![0; 64 << 20];
    let (result, time) = takes(LIMIT, || write(&client, &much));
    record.add("a part was taken", result.is_ok_and(|size| size > 0 && size < much.len()));
    record.add("it ends", time);
    Ok(())
}

/// The timeout applies to the whole call: it does not restart after partial progress.
fn write_to_a_slow_reader(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    /// Maximum number of reads, which take much longer than the timeout.
    const MAX_READS: u32 = 100;
    let (client, mut server) = ip.small_pair()?;
    client.set_write_timeout(Some(LIMIT))?;
    let much = vec![0; 8 << 20];
    let mut buffer = vec![0; 32 << 10];
    let (size, reads) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&client, &much));
        let mut reads = 0;
        while reads < MAX_READS && !writer.is_finished() {
            reads += u32::from(server.read(&mut buffer)? > 0);
            thread::sleep(LIMIT / 4);
        }
        Ok::<_, std::io::Error>((join(writer)?, reads))
    })?;
    record.add("a part was taken", size > 0 && size < much.len());
    record.add("it ends before the reader does", reads < MAX_READS);
    Ok(())
}

/// std has no call to set it for a listener.
fn accept_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    sys::set_timeout(listener.as_fd(), sys::Timeout::Receive, 0, 80_000)?;
    let accept = |listener: &TcpListener| listener.accept().map(drop);
    let (result, time) = takes(LIMIT, || accept(&listener));
    record.add("accept", result);
    record.add("it ends", time);
    let _client = TcpStream::connect(address)?;
    record.add("pending connection", accept(&listener));
    Ok(())
}

fn receive_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
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
        record.add(name, result);
        record.add("it ends", time);
    }
    one.send(b"data")?;
    record.add("received", receive(&other));
    Ok(())
}

fn in_time(record: &mut Transcript, ip: IpVersion) -> CheckResult {
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
    record.add("read", result);
    record.add("it ends", time);
    Ok(())
}

fn read_exact(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut client, server) = ip.pair()?;
    client.set_read_timeout(Some(LIMIT))?;
    write(&server, b"abc")?;
    let mut five = [0; 5];
    record.add("five of three", client.read_exact(&mut five));
    write(&server, b"de")?;
    record.add("the rest", read(&client));
    drop(server);
    record.add("five of none", client.read_exact(&mut five));
    Ok(())
}

fn shared_by_clones(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    client.try_clone()?.set_read_timeout(Some(SECOND))?;
    record.add("stream", client.read_timeout());
    let (socket, _) = ip.datagrams()?;
    socket.try_clone()?.set_write_timeout(Some(SECOND))?;
    record.add("datagrams", UdpSocket::write_timeout(&socket));
    Ok(())
}

fn bad_values(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    let set = |seconds, part| sys::set_timeout(&client, sys::Timeout::Receive, seconds, part);
    record.add("too many microseconds", set(0, 1_000_000));
    record.add("negative microseconds", set(0, -1));
    record.add("unchanged", client.read_timeout());
    record.add("negative seconds", set(-1, 0));
    let (result, time) = takes(Duration::ZERO, || read(&client));
    record.add("read", result);
    record.add("it ends", time);
    record.add("too short", sys::set_short_option(&client, sys::RECEIVE_TIMEOUT));
    Ok(())
}
