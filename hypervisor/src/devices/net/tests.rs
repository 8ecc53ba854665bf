//! Tests of the network device with a cable whose other end is the test.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::collection::vec;
use proptest::prelude::*;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, VolatileSlice};

use super::backend::{Backend, Lost, Received, Sent};
use super::header::{HEADER, Header, Offloads};
use super::vectored::{gather, scatter};
use super::{MAX_FRAME, Net, RECEIVE, Settings, TRANSMIT};
use crate::devices::virtio::testing::{
    BUFFERS, Driver, INDIRECT, MEMORY, NEXT, WRITE, assert_refuses_hostile_chains,
};
use crate::devices::virtio::{DeviceError, HostState, Served, VirtioDevice};

const SETTINGS: Settings = Settings { mac: [2, 1, 2, 3, 4, 5], mtu: 1500 };

/// Features: checksums and segmentation both ways, buffers that are put together.
const CHECKSUM: u64 = 1 << 0;
const GUEST_CHECKSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const HOST_TSO4: u64 = 1 << 11;
const MERGE: u64 = 1 << 15;
const ALL: u64 = CHECKSUM | GUEST_CHECKSUM | GUEST_TSO4 | HOST_TSO4 | MERGE | 1 << 8 | 1 << 12;

/// A segment over IPv4 that is to be cut.
const SEGMENT: Header = Header {
    flags: 1,
    kind: 1,
    header_length: 54,
    segment_size: 1460,
    checksum_start: 34,
    checksum_offset: 16,
    buffers: 0,
};

/// The other end.
#[derive(Debug, Default)]
struct Wire {
    to_guest: VecDeque<(Header, Vec<u8>)>,
    from_guest: Vec<(Header, Vec<u8>)>,
    offloads: Vec<Offloads>,
    /// How many frames it takes before it has no room.
    room: Option<usize>,
    is_lost: bool,
    /// Frames were taken, but have not left.
    is_clogged: bool,
}

#[derive(Clone, Debug, Default)]
struct Cable(Arc<Mutex<Wire>>);

impl Cable {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap()
    }

    fn state(&self) -> Result<(), Lost> {
        if self.wire().is_lost { Err(io::Error::from(ErrorKind::BrokenPipe).into()) } else { Ok(()) }
    }
}

impl Backend for Cable {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        self.wire().offloads.push(offloads);
        Ok(())
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<Received>, Lost> {
        self.state()?;
        assert!(room.len() <= super::vectored::MAX_PIECES);
        let Some((header, frame)) = self.wire().to_guest.pop_front() else { return Ok(None) };
        scatter(&frame, room);
        let most = room.iter().map(VolatileSlice::len).sum();
        Ok(Some(Received { header, length: frame.len().min(most) }))
    }

    fn send(&mut self, header: Header, frame: &[VolatileSlice<'_>]) -> Result<Sent, Lost> {
        self.state()?;
        let mut wire = self.wire();
        if wire.room == Some(0) {
            return Ok(Sent::Later);
        }
        wire.room = wire.room.map(|room| room - 1);
        let mut bytes = Vec::new();
        gather(frame, &mut bytes);
        wire.from_guest.push((header, bytes));
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> Result<Sent, Lost> {
        Ok(if self.wire().is_clogged { Sent::Later } else { Sent::Taken })
    }

    fn input(&self) -> RawFd {
        100
    }

    fn output(&self) -> RawFd {
        101
    }
}

/// A device and the driver of one of its queues.
struct Rig {
    cable: Cable,
    net: Net,
    driver: Driver,
    queue: Queue,
    index: usize,
}

impl Rig {
    fn new(index: usize, features: u64) -> Self {
        Self::with_queue(index, features, 256)
    }

    fn with_queue(index: usize, features: u64, size: u16) -> Self {
        let cable = Cable::default();
        let mut net = Net::new(Box::new(cable.clone()), SETTINGS);
        net.activate(features);
        let driver = Driver::new(size);
        let queue = driver.queue();
        Self { cable, net, driver, queue, index }
    }

    fn serve(&mut self) -> Result<Served, DeviceError> {
        self.net.process(self.index, &mut self.queue, &self.driver.memory)
    }

    fn finish(&mut self) -> Served {
        loop {
            let served = self.serve().unwrap();
            if served != Served::Partly {
                return served;
            }
        }
    }

    /// Offers buffers of this size, one behind the other.
    fn offer(&mut self, count: u32, size: u32) {
        for number in 0..count {
            self.driver.send(&[(BUFFERS + u64::from(number * size), size, true)]);
        }
    }

    fn arrive(&self, header: Header, frame: &[u8]) {
        self.cable.wire().to_guest.push_back((header, frame.to_vec()));
    }

    /// The frames that the driver has got: headers, and bytes from buffers of this size that were used in order.
    fn received(&mut self, size: u32) -> Vec<(Header, Vec<u8>)> {
        let used = self.driver.used();
        let mut rest = used.iter();
        let mut frames = Vec::new();
        while let Some(&first) = rest.next() {
            let mut bytes = self.buffer(first, size);
            let header = Header::from(<[u8; HEADER]>::try_from(&bytes[..HEADER]).unwrap());
            for _ in 1..header.buffers {
                bytes.extend(self.buffer(*rest.next().unwrap(), size));
            }
            frames.push((header, bytes.split_off(HEADER)));
        }
        frames
    }

    fn buffer(&self, (head, length): (u32, u32), size: u32) -> Vec<u8> {
        assert!(length <= size);
        self.driver.bytes(BUFFERS + u64::from(head * size), usize::try_from(length).unwrap())
    }

    /// Has the guest send a frame.
    fn send(&mut self, header: Header, frame: &[u8]) {
        self.driver.send_bytes(BUFFERS, &[&header.to_bytes()[..], frame].concat());
    }

    fn sent(&self) -> Vec<(Header, Vec<u8>)> {
        std::mem::take(&mut self.cable.wire().from_guest)
    }
}

/// Bytes that tell where they are.
fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

fn with_buffers(header: Header, buffers: u16) -> Header {
    Header { buffers, ..header }
}

#[test]
fn the_configuration_tells_address_state_and_size() {
    let cable = Cable::default();
    let mut net = Net::new(Box::new(cable.clone()), SETTINGS);
    let config = |net: &Net| {
        let mut config = [0; 13];
        net.read_config(0, &mut config);
        config
    };
    assert_eq!(config(&net), [2, 1, 2, 3, 4, 5, 1, 0, 0, 0, 0xdc, 5, 0]);
    assert_eq!(net.features(), ALL | 1 << 3 | 1 << 5 | 1 << 16);
    assert_eq!(net.device_type(), 1);
    cable.wire().is_lost = true;
    let driver = Driver::new(16);
    let mut rig = Rig { cable, net, queue: driver.queue(), driver, index: RECEIVE };
    rig.offer(1, 2048);
    assert!(!rig.net.take_change());
    assert_eq!(rig.finish(), Served::Waiting);
    assert!(rig.net.take_change() && !rig.net.take_change());
    net = rig.net;
    assert_eq!(config(&net)[6..8], [0, 0]);
    assert_eq!((net.host_event(RECEIVE), net.host_event(TRANSMIT)), (None, None));
}

#[test]
fn received_frames_are_put_into_one_buffer_each_if_they_fit() {
    let mut rig = Rig::new(RECEIVE, ALL);
    assert_eq!(rig.serve().unwrap(), Served::All);
    rig.offer(256, 2048);
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    rig.arrive(Header::default(), &frame(60));
    rig.arrive(Header { flags: 2, ..Header::default() }, &frame(1514));
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    let expected = [
        (with_buffers(Header::default(), 1), frame(60)),
        (Header { flags: 2, buffers: 1, ..Header::default() }, frame(1514)),
    ];
    assert_eq!(rig.received(2048), expected);
    let event = rig.net.host_event(RECEIVE).unwrap();
    assert_eq!((event.descriptor, event.state), (100, HostState::Readable));
}

#[test]
fn long_frames_are_spread_and_come_all_at_once() {
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.offer(256, 2048);
    rig.arrive(SEGMENT, &frame(MAX_FRAME));
    rig.arrive(SEGMENT, &frame(5000));
    assert_eq!(rig.finish(), Served::Waiting);
    let received = rig.received(2048);
    assert_eq!(received.iter().map(|(header, _)| header.buffers).collect::<Vec<_>>(), [33, 3]);
    assert_eq!(received[0], (with_buffers(SEGMENT, 33), frame(MAX_FRAME)));
    assert_eq!(received[1], (with_buffers(SEGMENT, 3), frame(5000)));
}

#[test]
fn without_merging_a_frame_has_one_buffer() {
    let mut rig = Rig::new(RECEIVE, 0);
    rig.offer(4, 1530);
    for length in [60, 1514, 1518, 1519, 70] {
        rig.arrive(Header::default(), &frame(length));
    }
    assert_eq!(rig.finish(), Served::All);
    // One was longer than the network's frames are.
    let received = rig.received(1530);
    assert_eq!(received.iter().map(|(_, frame)| frame.len()).collect::<Vec<_>>(), [60, 1514, 1518, 70]);
    assert!(received.iter().all(|(header, bytes)| header.buffers == 1 && *bytes == frame(bytes.len())));
    // A buffer that is too small for it drops a frame, and takes the next one.
    let mut rig = Rig::new(RECEIVE, 0);
    rig.offer(1, 100);
    rig.arrive(Header::default(), &frame(200));
    rig.arrive(Header::default(), &frame(88));
    assert_eq!(rig.finish(), Served::All);
    assert_eq!(rig.received(100), [(with_buffers(Header::default(), 1), frame(88))]);
}

#[test]
fn a_frame_waits_for_buffers_and_is_not_lost() {
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.offer(3, 512);
    rig.arrive(SEGMENT, &frame(2000));
    rig.arrive(Header::default(), &frame(100));
    assert_eq!(rig.finish(), Served::All);
    assert!(rig.received(512).is_empty());
    // The other one is still on the wire.
    assert_eq!(rig.cable.wire().to_guest.len(), 1);
    for number in 3..5 {
        rig.driver.send(&[(BUFFERS + number * 512, 512, true)]);
    }
    assert_eq!(rig.finish(), Served::All);
    let expected =
        [(with_buffers(SEGMENT, 4), frame(2000)), (with_buffers(Header::default(), 1), frame(100))];
    assert_eq!(rig.received(512), expected);
}

#[test]
fn a_frame_that_the_whole_queue_cannot_hold_is_dropped() {
    let mut rig = Rig::with_queue(RECEIVE, ALL, 8);
    rig.offer(8, 100);
    rig.arrive(SEGMENT, &frame(900));
    rig.arrive(Header::default(), &frame(788));
    assert_eq!(rig.finish(), Served::All);
    assert_eq!(rig.received(100), [(with_buffers(Header::default(), 8), frame(788))]);
}

#[test]
fn frames_for_which_the_driver_is_not_made_are_dropped() {
    let mut rig = Rig::new(RECEIVE, MERGE);
    rig.offer(256, 2048);
    // From before the host was told, for instance.
    rig.arrive(SEGMENT, &frame(1000));
    rig.arrive(Header { flags: 1, ..Header::default() }, &frame(1000));
    rig.arrive(Header::default(), &frame(5000));
    rig.arrive(Header::default(), &frame(61));
    assert_eq!(rig.finish(), Served::Waiting);
    assert_eq!(rig.received(2048), [(with_buffers(Header::default(), 1), frame(61))]);
}

#[test]
fn buffers_in_many_pieces_are_filled_all_the_same() {
    let mut rig = Rig::new(RECEIVE, ALL);
    // More pieces than the host takes at once.
    for chain in 0..10_u16 {
        let table = BUFFERS + 0x20_0000 + u64::from(chain) * 0x1000;
        for piece in 0..200 {
            let address = BUFFERS + u64::from(chain * 200 + piece) * 100;
            let flags = if piece < 199 { WRITE | NEXT } else { WRITE };
            rig.driver.describe_at(table, piece, (address, 50, flags, piece + 1));
        }
        rig.driver.describe(chain, (table, 200 * 16, INDIRECT, 0));
        rig.driver.offer(chain);
    }
    rig.arrive(SEGMENT, &frame(15_000));
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    assert_eq!(rig.driver.used(), [(0, 10_000), (1, 5012)]);
    let pieces = (0..301).map(|piece| rig.driver.bytes(BUFFERS + piece * 100, 50));
    let bytes: Vec<u8> = pieces.flatten().take(15_012).collect();
    assert_eq!(bytes[..HEADER], with_buffers(SEGMENT, 2).to_bytes());
    assert_eq!(bytes[HEADER..], frame(15_000));
}

#[test]
fn received_frames_take_turns() {
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.offer(256, 4096);
    for _ in 0..6 {
        rig.arrive(SEGMENT, &frame(60_000));
    }
    assert_eq!(rig.serve().unwrap(), Served::Partly);
    assert_eq!(rig.received(4096).len(), 5);
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
}

#[test]
fn buffers_without_room_for_a_header_break_the_rules() {
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.offer(1, 11);
    assert!(matches!(rig.serve(), Err(DeviceError::Length(11))));
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.driver.send(&[(BUFFERS, 100, false)]);
    assert!(matches!(rig.serve(), Err(DeviceError::Direction)));
}

#[test]
fn after_a_reset_old_buffers_are_forgotten() {
    let mut rig = Rig::new(RECEIVE, ALL);
    rig.offer(3, 512);
    rig.arrive(SEGMENT, &frame(2000));
    rig.finish();
    rig.net.reset();
    rig.net.activate(MERGE);
    rig.driver = Driver::new(256);
    rig.queue = rig.driver.queue();
    rig.arrive(Header::default(), &frame(99));
    assert_eq!(rig.finish(), Served::All);
    assert!(rig.received(2048).is_empty());
    rig.offer(1, 2048);
    assert_eq!(rig.finish(), Served::All);
    assert_eq!(rig.received(2048), [(with_buffers(Header::default(), 1), frame(99))]);
    let offloads: Vec<_> = rig.cable.wire().offloads.iter().map(|offloads| offloads.checksum).collect();
    assert_eq!(offloads, [true, false]);
}

#[test]
fn frames_are_sent_with_their_headers_checked() {
    let mut rig = Rig::new(TRANSMIT, ALL);
    rig.send(Header { flags: 0xf8, buffers: 7, ..Header::default() }, &frame(60));
    assert_eq!(rig.serve().unwrap(), Served::All);
    assert_eq!(rig.sent(), [(Header::default(), frame(60))]);
    rig.send(with_buffers(SEGMENT, 3), &frame(MAX_FRAME));
    rig.serve().unwrap();
    assert_eq!(rig.sent(), [(SEGMENT, frame(MAX_FRAME))]);
    assert_eq!(rig.driver.used(), [(0, 0), (1, 0)]);
}

#[test]
fn frames_that_make_no_sense_are_given_back_and_not_sent() {
    let mut rig = Rig::new(TRANSMIT, CHECKSUM);
    let places = BUFFERS + 0x10_0000;
    rig.send(SEGMENT, &frame(3000));
    rig.driver.send_bytes(places, &[0; HEADER + 13]);
    rig.driver.send_bytes(places + 0x1000, &[0; HEADER]);
    rig.driver.send_bytes(places + 0x2000, &vec![0; HEADER + MAX_FRAME + 1]);
    rig.driver.send_bytes(places + 0x8_0000, &[0; HEADER + 14]);
    assert_eq!(rig.serve().unwrap(), Served::All);
    assert_eq!(rig.driver.used().len(), 5);
    assert_eq!(rig.sent(), [(Header::default(), vec![0; 14])]);
    // Without even a header.
    rig.driver.send(&[(BUFFERS, 11, false)]);
    assert!(matches!(rig.serve(), Err(DeviceError::Length(11))));
}

#[test]
fn a_network_without_room_is_waited_for() {
    let mut rig = Rig::new(TRANSMIT, ALL);
    rig.cable.wire().room = Some(2);
    for number in 0..4 {
        let bytes = [&[0; HEADER][..], &[number; 60]].concat();
        rig.driver.send_bytes(BUFFERS + u64::from(number) * 100, &bytes);
    }
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    assert_eq!(rig.driver.used().len(), 2);
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    let event = rig.net.host_event(TRANSMIT).unwrap();
    assert_eq!((event.descriptor, event.state), (101, HostState::Writable));
    rig.cable.wire().room = None;
    rig.cable.wire().is_clogged = true;
    assert_eq!(rig.serve().unwrap(), Served::Waiting);
    rig.cable.wire().is_clogged = false;
    assert_eq!(rig.serve().unwrap(), Served::All);
    assert_eq!(rig.driver.used().len(), 2);
    let sent: Vec<_> = rig.sent().iter().map(|(_, frame)| frame[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3]);
}

#[test]
fn sent_frames_take_turns() {
    let mut rig = Rig::new(TRANSMIT, ALL);
    for _ in 0..6 {
        rig.send(SEGMENT, &frame(60_000));
    }
    assert_eq!(rig.serve().unwrap(), Served::Partly);
    assert_eq!((rig.driver.used().len(), rig.sent().len()), (5, 5));
}

#[test]
fn without_a_network_frames_go_nowhere() {
    let mut rig = Rig::new(TRANSMIT, ALL);
    rig.cable.wire().is_lost = true;
    for _ in 0..3 {
        rig.send(Header::default(), &frame(60));
    }
    assert_eq!(rig.finish(), Served::All);
    assert!(rig.net.take_change());
    assert!(rig.sent().is_empty());
    assert_eq!(rig.driver.used().len(), 3);
}

#[test]
fn hostile_chains_are_refused() {
    for index in [RECEIVE, TRANSMIT] {
        assert_refuses_hostile_chains(index, || {
            let mut net = Net::new(Box::new(Cable::default()), SETTINGS);
            net.activate(ALL);
            net
        });
    }
}

#[test]
fn a_guest_that_offers_without_end_gets_no_more_than_a_queue_has() {
    let mut rig = Rig::with_queue(RECEIVE, ALL, 16);
    for _ in 0..100 {
        rig.offer(16, 20);
        assert!(rig.serve().is_ok_and(|served| served != Served::Waiting) || rig.queue.next_avail() <= 16);
        if rig.queue.next_avail() == 16 {
            break;
        }
    }
    rig.offer(16, 20);
    rig.serve().unwrap();
    assert_eq!(rig.queue.next_avail(), 16);
}

/// Cuts bytes into pieces at the given places.
fn cut(address: u64, length: usize, cuts: &[usize], writes: bool) -> Vec<(u64, u32, bool)> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).chain([0, length]).collect();
    places.sort_unstable();
    let piece =
        |pair: &[usize]| (address + pair[0] as u64, u32::try_from(pair[1] - pair[0]).unwrap(), writes);
    places.windows(2).map(piece).collect()
}

proptest! {
    /// How a frame is cut into buffers means nothing (section 2.7.4).
    #[test]
    fn framing_means_nothing_when_sending(length in 14usize..5000, cuts in vec(any::<usize>(), 0..10)) {
        let mut rig = Rig::new(TRANSMIT, ALL);
        let bytes = [&[0; HEADER][..], &frame(length)].concat();
        rig.driver.memory.write_slice(&bytes, GuestAddress(BUFFERS)).unwrap();
        rig.driver.send(&cut(BUFFERS, bytes.len(), &cuts, false));
        prop_assert_eq!(rig.serve().unwrap(), Served::All);
        prop_assert_eq!(rig.sent(), [(Header::default(), frame(length))]);
    }

    /// Whatever the sizes of frames and buffers, frames arrive whole and in order, or are dropped whole.
    #[test]
    fn frames_arrive_whole_and_in_order(
        features in prop_oneof![Just(ALL), Just(MERGE), Just(0)],
        size in 100u32..5000,
        count in 1u32..200,
        lengths in vec(prop_oneof![14usize..2000, 14usize..=MAX_FRAME], 0..20),
    ) {
        let mut rig = Rig::new(RECEIVE, features);
        rig.offer(count, size);
        for &length in &lengths {
            rig.arrive(Header::default(), &frame(length));
        }
        let served = rig.finish();
        let mut expected = lengths.iter();
        for (_, bytes) in rig.received(size) {
            prop_assert_eq!(&bytes, &frame(bytes.len()));
            prop_assert!(expected.any(|&length| length == bytes.len()));
        }
        prop_assert!(rig.cable.wire().to_guest.is_empty() || served == Served::All);
    }

    #[test]
    fn no_chain_is_too_strange(
        index in 0usize..2,
        features: u64,
        header: [u8; HEADER],
        buffers in vec((BUFFERS..MEMORY, 0u32..0x2_0000, any::<bool>()), 1..10),
        lengths in vec(0usize..70_000, 0..4),
    ) {
        let mut rig = Rig::new(index, features);
        rig.driver.memory.write_slice(&header, GuestAddress(buffers[0].0.min(MEMORY - 12))).unwrap();
        for &length in &lengths {
            rig.arrive(Header::from(header), &frame(length));
        }
        for part in buffers.chunks(3) {
            rig.driver.send(part);
        }
        let _: Result<Served, DeviceError> = rig.serve();
        let offloads = Offloads::of_host(features);
        for (header, frame) in rig.sent() {
            prop_assert_eq!(header.checked(frame.len(), offloads), Ok(header));
        }
    }
}
