//! A simulated wire with faults, and devices with offloads.
//!
//! The wire delays each frame, and drops, duplicates or corrupts it with the given probabilities. A device
//! with offloads completes checksums and cuts segments as virtio-net does, unless the receiver takes
//! unsegmented frames without checksums.

use crate::wire::packet::{Frame, Packet};
use crate::{IpVersion, NetDevice, NetDeviceInfo, Offload, ReceivedInfo, Segment};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// Fault probabilities, in 256ths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) seed: u64,
    pub(crate) lost: u8,
    pub(crate) doubled: u8,
    pub(crate) corrupted: u8,
    /// Maximum of a random delay in addition to `delay`, in nanoseconds.
    pub(crate) jitter: u64,
    pub(crate) delay: u64,
}

#[derive(Debug)]
struct Flying {
    arrival: u64,
    bytes: Vec<u8>,
    info: ReceivedInfo,
}

/// A wire with its devices and frames in flight.
#[derive(Debug)]
pub(crate) struct Wire {
    faults: Faults,
    random: u64,
    pub(crate) now: u64,
    /// Frames in flight to each device.
    queues: Vec<Vec<Flying>>,
    /// For each device, true if it receives unsegmented frames without checksums.
    takes_large: Vec<bool>,
    /// All sent frames, if recording is enabled.
    pub(crate) log: Option<Vec<Vec<u8>>>,
    /// True if the wire is cut: all frames are lost.
    pub(crate) is_cut: bool,
}

impl Wire {
    pub(crate) fn new(faults: Faults) -> Self {
        let random = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { faults, random, now: 0, queues: Vec::new(), takes_large: Vec::new(), log: None, is_cut: false }
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn happens(&mut self, probability: u8) -> bool {
        self.next_random() >> 56 < u64::from(probability)
    }

    pub(crate) fn next_arrival(&self) -> u64 {
        self.queues.iter().flatten().map(|flying| flying.arrival).min().unwrap_or(u64::MAX)
    }

    /// Sends a frame to all devices except the sender's.
    pub(crate) fn send(&mut self, from: usize, bytes: &[u8], info: ReceivedInfo) {
        if let Some(log) = &mut self.log {
            log.push(bytes.to_vec());
        }
        for to in (0..self.queues.len()).filter(|&to| to != from) {
            let count = if self.is_cut || self.happens(self.faults.lost) {
                0
            } else if self.happens(self.faults.doubled) {
                2
            } else {
                1
            };
            for _ in 0..count {
                self.fly(to, bytes, info);
            }
        }
    }

    fn fly(&mut self, to: usize, bytes: &[u8], mut info: ReceivedInfo) {
        let mut bytes = bytes.to_vec();
        if self.happens(self.faults.corrupted) {
            let place = usize::try_from(self.next_random() % bytes.len() as u64).unwrap();
            bytes[place] ^= 1 << (self.next_random() % 8);
            info = ReceivedInfo::default();
        }
        let jitter = if self.faults.jitter == 0 { 0 } else { self.next_random() % self.faults.jitter };
        let arrival = self.now + self.faults.delay + jitter;
        self.queues[to].push(Flying { arrival, bytes, info });
    }

    fn take(&mut self, to: usize) -> Option<Flying> {
        let queue = &mut self.queues[to];
        let first = queue.iter().enumerate().min_by_key(|(_, flying)| flying.arrival);
        let (place, _) = first.filter(|(_, flying)| flying.arrival <= self.now)?;
        Some(queue.remove(place))
    }
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct SimDevice {
    wire: Option<Rc<RefCell<Wire>>>,
    number: usize,
    info: NetDeviceInfo,
    takes_large: bool,
    /// Capacity of the transmit queue in frames.
    pub(crate) room: Option<usize>,
    /// True if queued frames are not transmitted yet.
    pub(crate) is_sending: bool,
    /// True if frames are refused after `can_transmit` has promised room.
    pub(crate) is_broken: bool,
    /// Offloads of the transmitted frames.
    pub(crate) offloads: Vec<(usize, Offload)>,
}

impl SimDevice {
    /// A device without offloads.
    pub(crate) fn plain(number: usize) -> Self {
        let mac = [2, 0, 0, 0, 1, u8::try_from(number).unwrap()];
        let info =
            NetDeviceInfo { mac, mtu: 1500, fills_checksums: false, segments_v4: None, segments_v6: None };
        Self {
            wire: None,
            number,
            info,
            takes_large: false,
            room: None,
            is_sending: false,
            is_broken: false,
            offloads: vec![],
        }
    }

    /// A device with checksum and segmentation offload, which also receives unsegmented frames.
    pub(crate) fn offloading(number: usize) -> Self {
        let mut port = Self::plain(number);
        port.info.fills_checksums = true;
        port.info.segments_v4 = Some(65_536);
        port.info.segments_v6 = Some(65_536);
        port.takes_large = true;
        port
    }

    /// Sets the MTU.
    pub(crate) fn with_mtu(mut self, mtu: u16) -> Self {
        self.info.mtu = mtu;
        self
    }

    /// Disables the reception of unsegmented frames.
    pub(crate) fn receiving_small(mut self) -> Self {
        self.takes_large = false;
        self
    }

    pub(crate) fn attach(&mut self, wire: &Rc<RefCell<Wire>>) {
        let mut state = wire.borrow_mut();
        self.number = state.queues.len();
        state.queues.push(Vec::new());
        state.takes_large.push(self.takes_large);
        drop(state);
        self.wire = Some(Rc::clone(wire));
    }

    fn wire(&self) -> &RefCell<Wire> {
        self.wire.as_ref().unwrap()
    }
}

impl NetDevice for SimDevice {
    fn info(&self) -> NetDeviceInfo {
        self.info
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R> {
        let flying = self.wire().borrow_mut().take(self.number)?;
        Some(take(&flying.bytes, flying.info))
    }

    fn can_transmit(&mut self, size: usize) -> bool {
        assert!(size <= 65_536 + 14);
        self.room != Some(0)
    }

    fn is_sending(&mut self) -> bool {
        self.is_sending
    }

    fn transmit(&mut self, size: usize, offload: Offload, fill: impl FnOnce(&mut [u8])) {
        assert!(self.room != Some(0));
        if self.is_broken {
            return;
        }
        self.room = self.room.map(|room| room - 1);
        let mut bytes = vec![0xa5; size];
        fill(&mut bytes);
        self.offloads.push((size, offload));
        let most = usize::from(self.info.mtu) + 14;
        assert!(size <= most || offload.segment.is_some(), "{size} bytes");
        let all_take_large = self.wire().borrow().takes_large.iter().all(|&takes| takes);
        let mut wire = self.wire.as_ref().unwrap().borrow_mut();
        if all_take_large && offload.checksum.is_some() {
            wire.send(self.number, &bytes, ReceivedInfo { checksum_good: true });
        } else {
            for frame in finish(&bytes, offload) {
                assert!(frame.len() <= most);
                wire.send(self.number, &frame, ReceivedInfo::default());
            }
        }
    }
}

/// Applies offloads to a frame.
fn finish(bytes: &[u8], offload: Offload) -> VecDeque<Vec<u8>> {
    match offload.segment {
        Some(segment) => cut(bytes, segment),
        None => {
            let mut bytes = bytes.to_vec();
            if let Some(checksum) = offload.checksum {
                let start = usize::from(checksum.start);
                let sum = !smoltcp::wire::checksum::data(&bytes[start..]);
                let place = start + usize::from(checksum.offset);
                bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
            }
            VecDeque::from([bytes])
        }
    }
}

/// Segments a frame.
fn cut(bytes: &[u8], segment: Segment) -> VecDeque<Vec<u8>> {
    let header = usize::from(segment.header_size);
    let frame = Frame::parse(bytes).unwrap();
    let whole = Packet::parse(frame.payload).unwrap();
    assert_eq!((whole.protocol, whole.bytes.len()), (IpProtocol::Tcp, frame.payload.len()));
    let tcp = TcpPacket::new_checked(whole.payload).unwrap();
    assert_eq!(bytes.len() - tcp.payload().len(), header);
    assert_eq!(segment.version, if whole.source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 });
    let (source, destination) = (whole.source.into(), whole.destination.into());
    let ip = 14 + frame.payload.len() - whole.payload.len();
    let size = usize::from(segment.size);
    let count = tcp.payload().len().div_ceil(size);
    let pieces = tcp.payload().chunks(size).enumerate().map(|(number, piece)| {
        let mut frame = bytes[..header].to_vec();
        frame.extend_from_slice(piece);
        let length = u16::try_from(frame.len() - 14).unwrap();
        if whole.source.is_ipv4() {
            let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
            packet.set_total_len(length);
            packet.fill_checksum();
        } else {
            Ipv6Packet::new_unchecked(&mut frame[14..]).set_payload_len(length - 40);
        }
        let mut packet = TcpPacket::new_unchecked(&mut frame[ip..]);
        packet.set_seq_number(tcp.seq_number() + number * size);
        packet.set_psh(tcp.psh() && number + 1 == count);
        packet.set_fin(tcp.fin() && number + 1 == count);
        packet.fill_checksum(&source, &destination);
        frame
    });
    pieces.collect()
}
