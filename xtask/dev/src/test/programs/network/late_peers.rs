//! Tests that all of many peers are served that connect at once and complete the handshake late, although the
//! guest has little memory.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, eth, ipproto, recv, sendto, socket};

use super::packets::{ACK, RST, SYN, Segment};
use super::path::NetworkPath;
use super::tap::Tap;
use super::{http, load, server_guest};
use crate::test::platform::TestPlatform;

/// Number of peers: more than the number of half-open connections for which the guest has memory.
const PEERS: u16 = 500;

/// The guest's memory in MiB.
const MEMORY: u64 = 64;

/// Time from a SYN-ACK to its acknowledgement. It is longer than most peers take, but shorter than the second
/// after which the guest may give up a peer.
const DELAY: Duration = Duration::from_millis(250);

/// If this process was paused for longer, its peers may have been too late.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of bursts that are repeated because of a pause.
const MAX_REPEATS: u16 = 5;

/// Interval at which peers repeat unanswered segments.
const REPEAT_INTERVAL: Duration = Duration::from_secs(3);

/// Time limit. It only bounds how long a failed test hangs.
const TIMEOUT: Duration = Duration::from_secs(100);

/// The request of each peer. It has an even number of bytes, as the checksum requires.
const REQUEST: &[u8] = b"GET /bytes/100 HTTP/1.1\r\nHost: guests\r\nConnection: close\r\n\r\n";

/// Initial sequence number of the peers.
const FIRST: u32 = 1_000_000;

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    tap.know_guest()?;
    let target = (tap.guest(), load::PORT);
    let path = NetworkPath::Tap(tap);
    let (guest, address) = path.reach(load::httpd(platform, MEMORY), load::PORT)?;
    let run = || {
        http::get_with_retries(address, "/")?;
        for number in 1..=MAX_REPEATS {
            if Burst::new(target, number)?.run()? {
                return Ok(());
            }
        }
        bail!("this process was paused in each of {MAX_REPEATS} bursts")
    };
    server_guest::during(&guest, run, || http::exit(address)).map(drop)
}

/// State of a peer. The comments name the event for which the peer waits.
#[derive(Clone, Copy, Debug)]
enum State {
    /// The SYN-ACK.
    SynSent,
    /// The end of its own delay. Has the sequence number to acknowledge.
    Delayed { since: Instant, acknowledged: u32 },
    /// The response.
    Requested { acknowledged: u32 },
}

/// Peers at addresses of the benchmarking network (RFC 2544), which this host routes nowhere.
#[derive(Debug)]
struct Burst {
    target: (Ipv4Addr, u16),
    /// Address of all peers. Each peer has its own port.
    address: Ipv4Addr,
    sender: OwnedFd,
    receiver: OwnedFd,
    /// Peers that are not served yet, by port.
    peers: BTreeMap<u16, State>,
}

impl Burst {
    fn new(target: (Ipv4Addr, u16), number: u16) -> Result<Self> {
        let [high, low] = number.to_be_bytes();
        let sender = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
        let receiver = socket(AddressFamily::PACKET, SocketType::DGRAM, Some(eth::IP))?;
        let peers = (1..=PEERS).map(|peer| (1024 + peer, State::SynSent)).collect();
        Ok(Self { target, address: Ipv4Addr::new(198, 18, high, low), sender, receiver, peers })
    }

    /// Connects all peers at once. Fails if a peer is reset or not served. Returns false if this process was
    /// paused meanwhile, because the result is then invalid.
    fn run(mut self) -> Result<bool> {
        let start = Instant::now();
        let (mut repeated, mut last) = (start, start);
        self.repeat()?;
        while !self.peers.is_empty() {
            ensure!(start.elapsed() < TIMEOUT, "{} of {PEERS} peers are not served", self.peers.len());
            self.receive()?;
            self.acknowledge()?;
            if last.elapsed() > MAX_PAUSE {
                return Ok(false);
            }
            last = Instant::now();
            if repeated.elapsed() > REPEAT_INTERVAL {
                self.repeat()?;
                repeated = Instant::now();
            }
        }
        Ok(true)
    }

    /// Sends the unanswered segment of each peer again, because the host or the guest may have dropped it.
    fn repeat(&self) -> Result<()> {
        self.peers.iter().try_for_each(|(&port, state)| match *state {
            State::SynSent => self.send(port, SYN, (FIRST, 0), &[]),
            State::Delayed { .. } => Ok(()),
            State::Requested { acknowledged } => self.send(port, ACK, (FIRST + 1, acknowledged), REQUEST),
        })
    }

    /// Receives all packets that have arrived. Waits up to 5 ms for the first one.
    fn receive(&mut self) -> Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        match poll(&mut [PollFd::new(&self.receiver, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for packets"),
        }
        let mut buffer = [0; 2048];
        loop {
            let (packet, _) = match recv(&self.receiver, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => buffer.split_at(length.min(buffer.len())),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("cannot receive packets"),
            };
            let segment = Segment::parse(packet);
            if let Some(segment) = segment
                .filter(|segment| segment.source == self.target && segment.destination.0 == self.address)
            {
                self.take(&segment)?;
            }
        }
    }

    /// Handles a segment that the guest has sent.
    fn take(&mut self, segment: &Segment<'_>) -> Result<()> {
        let (_, port) = segment.destination;
        let Some(state) = self.peers.get_mut(&port) else { return Ok(()) };
        ensure!(segment.flags & RST == 0, "the peer at port {port} is reset: {state:?}");
        if segment.flags & SYN != 0 {
            if matches!(state, State::SynSent) {
                let acknowledged = segment.sequence.wrapping_add(1);
                *state = State::Delayed { since: Instant::now(), acknowledged };
            }
        } else if !segment.data.is_empty() {
            self.peers.remove(&port);
            let sequence = segment.acknowledged;
            self.send(port, RST, (sequence, 0), &[])?;
        }
        Ok(())
    }

    /// Completes the handshake of each peer whose delay is over, with a segment that contains the request.
    fn acknowledge(&mut self) -> Result<()> {
        let due = self.peers.iter().filter_map(|(&port, state)| match *state {
            State::Delayed { since, acknowledged } if since.elapsed() >= DELAY => Some((port, acknowledged)),
            _ => None,
        });
        for (port, acknowledged) in due.collect::<Vec<_>>() {
            self.send(port, ACK, (FIRST + 1, acknowledged), REQUEST)?;
            self.peers.insert(port, State::Requested { acknowledged });
        }
        Ok(())
    }

    fn send(&self, port: u16, flags: u8, (sequence, acknowledged): (u32, u32), data: &[u8]) -> Result<()> {
        let (source, destination) = ((self.address, port), self.target);
        let packet = Segment { source, destination, flags, sequence, acknowledged, data }.packet();
        match sendto(&self.sender, &packet, SendFlags::empty(), &SocketAddrV4::new(self.target.0, 0)) {
            // With `ENOBUFS`, the transmit queue is full, and the packet is lost.
            Ok(_) | Err(Errno::NOBUFS) => Ok(()),
            Err(error) => Err(error).context("a packet cannot be sent"),
        }
    }
}
