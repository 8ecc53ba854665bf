//! Bulk transfers: all data arrives unchanged and in order, whatever threads and buffers do.
//!
//! Rows send large amounts of a pattern and compare a digest at the receiver, with writes of different sizes,
//! small buffers, a slow reader, and many connections. They find errors that single calls do not show, such
//! as lost wake-ups and bytes that are sent twice.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{Digest, IpVersion, join, pattern, read, settle};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 10] = [
    ("one_way", Check::PerVersion(one_way)),
    ("both_ways", Check::PerVersion(both_ways)),
    ("small_writes", Check::PerVersion(small_writes)),
    ("odd_sizes", Check::PerVersion(odd_sizes)),
    ("slow_reader", Check::PerVersion(slow_reader)),
    ("small_buffers", Check::PerVersion(small_buffers)),
    ("many_connections", Check::PerVersion(many_connections)),
    ("reader_leaves", Check::PerVersion(reader_leaves)),
    ("writer_leaves", Check::PerVersion(writer_leaves)),
    ("nonblocking", Check::PerVersion(nonblocking)),
];

/// Number of bytes sent in most rows.
const LENGTH: usize = 8 << 20;

/// Sends the bytes in writes of `size` bytes, then shuts down.
fn send(mut stream: &TcpStream, bytes: &[u8], size: usize) -> io::Result<()> {
    bytes.chunks(size).try_for_each(|part| stream.write_all(part))?;
    stream.shutdown(Shutdown::Write)
}

/// Receives until the end of the stream in reads of `size` bytes; returns the number of bytes and their
/// digest.
fn receive(mut stream: &TcpStream, size: usize) -> io::Result<(usize, Digest)> {
    let mut buffer = vec![0; size];
    let (mut total, mut digest) = (0, Digest::new());
    loop {
        let size = match stream.read(&mut buffer) {
            Ok(0) => return Ok((total, digest)),
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total += size;
        digest.add(buffer.split_at(size).0);
    }
}

/// Sends and receives concurrently. Records the number of bytes, and if they were unchanged.
fn pass(
    record: &mut Transcript,
    pair: (TcpStream, TcpStream),
    bytes: &[u8],
    sizes: (usize, usize),
) -> CheckResult {
    let (from, to) = pair;
    let (total, digest) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&from, bytes, sizes.0));
        let received = receive(&to, sizes.1);
        join(sender)?;
        received
    })?;
    record.add("bytes", total);
    record.add("same", digest == Digest::of(bytes));
    Ok(())
}

fn one_way(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    pass(record, ip.pair()?, &pattern(1, 2 * LENGTH), (64 << 10, 64 << 10))
}

fn both_ways(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let (there, back) = (pattern(2, LENGTH), pattern(3, LENGTH));
    let (at_server, at_client) = thread::scope(|scope| {
        let senders = [(&client, &there), (&server, &back)]
            .map(|(from, bytes)| scope.spawn(|| send(from, bytes, 20_000)));
        let receivers = [&server, &client].map(|to| scope.spawn(|| receive(to, 30_000)));
        senders.into_iter().try_for_each(join)?;
        let [at_server, at_client] = receivers.map(join);
        Ok::<_, io::Error>((at_server?, at_client?))
    })?;
    record.add("there", at_server == (LENGTH, Digest::of(&there)));
    record.add("back", at_client == (LENGTH, Digest::of(&back)));
    Ok(())
}

fn small_writes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    pass(record, ip.pair()?, &pattern(4, 200_000), (7, 64 << 10))
}

/// Sizes that are aligned to nothing.
fn odd_sizes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    for sizes in [(1_461, 65_537), (65_537, 1_461), (100_003, 4_099)] {
        pass(record, ip.pair()?, &pattern(5, 1_000_003), sizes)?;
    }
    Ok(())
}

/// The sender is blocked by a slow receiver (back-pressure).
fn slow_reader(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (from, to) = ip.pair()?;
    let bytes = pattern(6, LENGTH);
    let (total, digest) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&from, &bytes, 1 << 20));
        let (mut total, mut digest) = (0, Digest::new());
        let mut buffer = vec![0; 1 << 20];
        // The receiver sometimes sleeps while its buffers are full.
        loop {
            match (&to).read(&mut buffer)? {
                0 => break,
                size => {
                    total += size;
                    digest.add(buffer.split_at(size).0);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        join(sender)?;
        Ok::<_, io::Error>((total, digest))
    })?;
    record.add("bytes", total);
    record.add("same", digest == Digest::of(&bytes));
    Ok(())
}

fn small_buffers(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (from, to) = ip.pair()?;
    sys::set_option(&from, sys::SEND_BUFFER, 4_096)?;
    sys::set_option(&to, sys::RECEIVE_BUFFER, 4_096)?;
    pass(record, (from, to), &pattern(7, 60_000), (10_000, 999))
}

fn many_connections(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let pairs: Vec<_> = (0..24).map(|_| ip.pair()).collect::<Result<_, _>>()?;
    let right = thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter()
            .zip(10..)
            .flat_map(|((from, to), seed)| {
                let sender = scope.spawn(move || send(from, &pattern(seed, 200_000), 5_000).map(|()| 0));
                let receiver = scope.spawn(move || {
                    let (total, digest) = receive(to, 8_000)?;
                    Ok(usize::from(total == 200_000 && digest == Digest::of(&pattern(seed, 200_000))))
                });
                [sender, receiver]
            })
            .collect();
        threads.into_iter().map(join).sum::<io::Result<usize>>()
    })?;
    record.add("right ones of 24", right);
    Ok(())
}

/// The writer gets an error once the reader has closed.
fn reader_leaves(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (from, mut to) = ip.pair()?;
    let result = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let block = [0; 10_000];
            // The first error after the connection was closed.
            loop {
                (&mut &from).write_all(&block)?;
            }
        });
        to.read_exact(&mut [0; 100_000])?;
        drop(to);
        join::<()>(sender)
    });
    // Whether the reset or the write comes first is random; either error means that the connection is closed.
    let over = |error: &io::Error| {
        [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe].contains(&error.kind())
    };
    record.add("writer learns it", result.is_err_and(|error| over(&error)));
    Ok(())
}

/// All data written before the close is delivered.
fn writer_leaves(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (from, to) = ip.pair()?;
    let bytes = pattern(8, 1 << 20);
    let (total, digest) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut from = from;
            from.write_all(&bytes)
        });
        settle();
        let received = receive(&to, 12_345);
        join(sender)?;
        received
    })?;
    record.add("bytes", total);
    record.add("same", digest == Digest::of(&bytes));
    record.add("end", read(&to));
    Ok(())
}

/// One thread serves both sides without blocking.
fn nonblocking(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (mut from, mut to) = ip.pair()?;
    from.set_nonblocking(true)?;
    to.set_nonblocking(true)?;
    let bytes = pattern(9, 4 << 20);
    let (mut sent, mut total, mut digest) = (0, 0, Digest::new());
    let mut buffer = vec![0; 50_000];
    while total < bytes.len() {
        match from.write(bytes.split_at(sent).1) {
            Ok(size) => sent += size,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match to.read(&mut buffer) {
            Ok(size) => {
                total += size;
                digest.add(buffer.split_at(size).0);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    record.add("bytes", total);
    record.add("same", digest == Digest::of(&bytes));
    Ok(())
}
