//! Much data: it arrives, unchanged and in order, whatever happens to threads and buffers meanwhile.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Digest, Ip, join, pattern, read, settle};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 10] = [
    ("one_way", Check::Versions(one_way)),
    ("both_ways", Check::Versions(both_ways)),
    ("small_writes", Check::Versions(small_writes)),
    ("odd_sizes", Check::Versions(odd_sizes)),
    ("slow_reader", Check::Versions(slow_reader)),
    ("small_buffers", Check::Versions(small_buffers)),
    ("many_connections", Check::Versions(many_connections)),
    ("reader_leaves", Check::Versions(reader_leaves)),
    ("writer_leaves", Check::Versions(writer_leaves)),
    ("nonblocking", Check::Versions(nonblocking)),
];

/// Bytes that are sent in most rows.
const LENGTH: usize = 8 << 20;

/// Sends the bytes in writes of this size, and the end.
fn send(mut stream: &TcpStream, bytes: &[u8], size: usize) -> io::Result<()> {
    bytes.chunks(size).try_for_each(|part| stream.write_all(part))?;
    stream.shutdown(Shutdown::Write)
}

/// Receives up to the end in reads of this size; gives how much it was and its digest.
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

/// Sends and receives at the same time; notes how much came and whether it was the same.
fn pass(notes: &mut Notes, pair: (TcpStream, TcpStream), bytes: &[u8], sizes: (usize, usize)) -> Outcome {
    let (from, to) = pair;
    let (total, digest) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&from, bytes, sizes.0));
        let received = receive(&to, sizes.1);
        join(sender)?;
        received
    })?;
    notes.add("bytes", total);
    notes.add("same", digest == Digest::of(bytes));
    Ok(())
}

fn one_way(notes: &mut Notes, ip: Ip) -> Outcome {
    pass(notes, ip.pair()?, &pattern(1, 2 * LENGTH), (64 << 10, 64 << 10))
}

fn both_ways(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("there", at_server == (LENGTH, Digest::of(&there)));
    notes.add("back", at_client == (LENGTH, Digest::of(&back)));
    Ok(())
}

fn small_writes(notes: &mut Notes, ip: Ip) -> Outcome {
    pass(notes, ip.pair()?, &pattern(4, 200_000), (7, 64 << 10))
}

/// Sizes that meet no border of anything.
fn odd_sizes(notes: &mut Notes, ip: Ip) -> Outcome {
    for sizes in [(1_461, 65_537), (65_537, 1_461), (100_003, 4_099)] {
        pass(notes, ip.pair()?, &pattern(5, 1_000_003), sizes)?;
    }
    Ok(())
}

/// Who sends has to wait for who receives.
fn slow_reader(notes: &mut Notes, ip: Ip) -> Outcome {
    let (from, to) = ip.pair()?;
    let bytes = pattern(6, LENGTH);
    let (total, digest) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(&from, &bytes, 1 << 20));
        let (mut total, mut digest) = (0, Digest::new());
        let mut buffer = vec![0; 1 << 20];
        // It sleeps now and then, as long as its buffers are full, and reads more than there is.
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
    notes.add("bytes", total);
    notes.add("same", digest == Digest::of(&bytes));
    Ok(())
}

fn small_buffers(notes: &mut Notes, ip: Ip) -> Outcome {
    let (from, to) = ip.pair()?;
    sys::set_option(&from, sys::SEND_BUFFER, 4_096)?;
    sys::set_option(&to, sys::RECEIVE_BUFFER, 4_096)?;
    pass(notes, (from, to), &pattern(7, 60_000), (10_000, 999))
}

fn many_connections(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("right ones of 24", right);
    Ok(())
}

/// Who writes learns that nobody reads any more.
fn reader_leaves(notes: &mut Notes, ip: Ip) -> Outcome {
    let (from, mut to) = ip.pair()?;
    let result = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let block = [0; 10_000];
            // The first error after the connection is gone.
            loop {
                (&mut &from).write_all(&block)?;
            }
        });
        to.read_exact(&mut [0; 100_000])?;
        drop(to);
        join::<()>(sender)
    });
    // Whether the reset or the write comes first is chance; both kinds say that it is over.
    let over = |error: &io::Error| {
        [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe].contains(&error.kind())
    };
    notes.add("writer learns it", result.is_err_and(|error| over(&error)));
    Ok(())
}

/// Everything that was written before the end arrives before the end.
fn writer_leaves(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("bytes", total);
    notes.add("same", digest == Digest::of(&bytes));
    notes.add("end", read(&to));
    Ok(())
}

/// One thread does both sides and never waits.
fn nonblocking(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("bytes", total);
    notes.add("same", digest == Digest::of(&bytes));
    Ok(())
}
