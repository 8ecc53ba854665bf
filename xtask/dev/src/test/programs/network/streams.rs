//! Tests TCP streams in both directions at the same time: every byte arrives, in order.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::path::NetworkPath;
use super::tap::Tap;
use super::{http, server_guest, servers, uninterrupted};
use crate::test::platform::TestPlatform;
use crate::test::random::Random;

/// The port of `poll_server`, an echo server.
const PORT: u16 = 7070;

/// Number of streams.
const STREAMS: u64 = 4;

/// Time for which the client writes to each stream.
const TIME: Duration = Duration::from_secs(4);

/// Size of a write in bytes. It is not a multiple of the size of a segment.
const PIECE: usize = 50_000;

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let path = NetworkPath::Tap(Tap::new()?);
    let (guest, address) = path.reach(platform.guest("poll_server", &[]).memory(64), PORT)?;
    let test = || streams(address);
    server_guest::during(&guest, test, || servers::end_poll_server(address)).map(drop)
}

fn streams(address: SocketAddr) -> Result<()> {
    thread::scope(|scope| {
        let streams: Vec<_> = (1..=STREAMS).map(|seed| scope.spawn(move || stream(address, seed))).collect();
        streams.into_iter().try_for_each(|stream| stream.join().map_err(|_| anyhow!("a stream panicked"))?)
    })
}

fn stream(address: SocketAddr, seed: u64) -> Result<()> {
    let stream = http::connect(address)?;
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&stream, seed));
        let read = read(&stream, seed);
        let written = writer.join().map_err(|_| anyhow!("a writer panicked"))??;
        let read = read?;
        ensure!(read == written && read > 0, "{read} of {written} bytes came back");
        Ok(())
    })
}

/// Writes for [`TIME`]. Returns the number of bytes.
fn write(mut stream: &TcpStream, seed: u64) -> Result<usize> {
    let (mut pattern, start, mut total) = (Pattern(Random::new(seed)), Instant::now(), 0);
    while start.elapsed() < TIME {
        let piece: Vec<u8> = pattern.by_ref().take(PIECE).collect();
        stream.write_all(&piece)?;
        total += piece.len();
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(total)
}

/// Reads up to the end and compares all bytes with the pattern. Returns the number of bytes.
fn read(mut stream: &TcpStream, seed: u64) -> Result<usize> {
    let (mut pattern, mut buffer, mut total) = (Pattern(Random::new(seed)), vec![0; PIECE], 0);
    loop {
        let size = uninterrupted(|| stream.read(&mut buffer))?;
        if size == 0 {
            return Ok(total);
        }
        let same =
            buffer.iter().take(size).zip(&mut pattern).take_while(|(got, sent)| **got == *sent).count();
        ensure!(same == size, "byte {} is not what was sent", total + same);
        total += size;
    }
}

/// Pseudo-random bytes without a newline, so that no line `exit` ends the server.
struct Pattern(Random);

impl Iterator for Pattern {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let [byte, ..] = self.0.next().to_le_bytes();
        Some(byte | 0x80)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, Random};

    #[test]
    fn patterns_differ_by_seed() {
        let pattern = |seed| Pattern(Random::new(seed)).take(1000).collect::<Vec<_>>();
        assert_ne!(pattern(1), pattern(2));
        assert_ne!(pattern(1)[..500], pattern(1)[500..]);
        assert!(pattern(3).iter().all(|byte| *byte != b'\n'));
    }
}
