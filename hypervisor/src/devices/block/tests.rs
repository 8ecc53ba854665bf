//! Tests of the block device.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use virtio_queue::Queue;
use vm_memory::{Bytes, GuestAddress};

use super::config::MAX_DATA;
use super::{Block, SECTOR_SIZE};
use crate::devices::rate_limiter::tests::simulated;
use crate::devices::virtio::test_utils::{BUFFERS, MEMORY, TestDriver, assert_rejects_malformed_queues};
use crate::devices::virtio::{DeviceError, QueueProgress, VirtioDevice};

const SECTORS: u64 = 8;

/// Status bytes (virtio 1.2 §5.2.6).
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Request types (virtio 1.2 §5.2.6).
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;

/// Addresses of the parts of a request.
const HEADER: u64 = BUFFERS;
const STATUS: u64 = BUFFERS + 0x100;
const DATA: u64 = BUFFERS + 0x1000;

struct Harness {
    block: Block,
    file: File,
    driver: TestDriver,
    queue: Queue,
}

/// File in which each byte is the number of its sector.
fn file(size: u64) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let byte = |position: u64| u8::try_from(position / u64::from(SECTOR_SIZE)).unwrap();
    file.write_all(&(0..size).map(byte).collect::<Vec<_>>()).unwrap();
    file
}

impl Harness {
    fn new(is_read_only: bool) -> Self {
        let file = file(SECTORS * u64::from(SECTOR_SIZE));
        let block = Block::new(file.try_clone().unwrap(), is_read_only).unwrap();
        let driver = TestDriver::new(128);
        let queue = driver.queue();
        Self { block, file, driver, queue }
    }

    fn header(&self, kind: u32, sector: u64) {
        let header = [&kind.to_le_bytes()[..], &[0xff; 4], &sector.to_le_bytes()].concat();
        self.driver.memory.write_slice(&header, GuestAddress(HEADER)).unwrap();
    }

    /// Sends a request and returns its status and the length in its used element.
    fn send(&mut self, buffers: &[(u64, u32, bool)]) -> Result<(u8, u32), DeviceError> {
        self.driver.memory.write_obj(0xee_u8, GuestAddress(STATUS)).unwrap();
        let head = self.driver.send(buffers);
        let served = self.block.process(0, &mut self.queue, &self.driver.memory)?;
        assert_ne!(served, QueueProgress::Blocked);
        let used = self.driver.used();
        assert_eq!((used.len(), used[0].0), (1, head.into()));
        Ok((self.driver.bytes(STATUS, 1)[0], used[0].1))
    }

    /// Sends a request of three buffers: header, data, status.
    fn request(&mut self, kind: u32, sector: u64, length: u32) -> (u8, u32) {
        self.header(kind, sector);
        let from_device = matches!(kind, IN | GET_ID);
        self.send(&[(HEADER, 16, false), (DATA, length, from_device), (STATUS, 1, true)]).unwrap()
    }

    /// Contents of a sector of the file.
    fn on_disk(&self, sector: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        self.file.read_exact_at(&mut bytes, sector * u64::from(SECTOR_SIZE)).unwrap();
        bytes
    }

    /// Returns true if the file has its original contents.
    fn is_unchanged(&self) -> bool {
        let is_same = |sector| self.on_disk(sector).iter().all(|&byte| u64::from(byte) == sector);
        self.file.metadata().unwrap().len() == SECTORS * 512 && (0..SECTORS).all(is_same)
    }
}

#[test]
fn configuration_space_has_capacity_and_limits() {
    let block = Block::new(file(5 * 512 + 511), false).unwrap();
    let mut config = [0; 28];
    block.read_config(0, &mut config);
    // capacity, size_max, seg_max, no geometry, blk_size, nothing (virtio 1.2 §5.2.4).
    let expected = [
        &5_u64.to_le_bytes()[..],
        &0x2_0000_u32.to_le_bytes(),
        &126_u32.to_le_bytes(),
        &[0; 4],
        &512_u32.to_le_bytes(),
        &[0; 4],
    ];
    assert_eq!(config[..], expected.concat());
    // SIZE_MAX, SEG_MAX, BLK_SIZE, FLUSH; RO.
    let always = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 9;
    assert_eq!(block.features(), always);
    assert_eq!(Block::new(file(0), true).unwrap().features(), always | 1 << 5);
}

#[test]
fn read_request_returns_sectors() {
    let mut harness = Harness::new(true);
    assert_eq!(harness.request(IN, 3, 1024), (OK, 1025));
    assert_eq!(harness.driver.bytes(DATA, 1024), [[3; 512], [4; 512]].concat());
    assert_eq!(harness.driver.bytes(DATA + 1024, 1), [0]);
    assert_eq!(harness.request(IN, SECTORS, 0), (OK, 1));
}

#[test]
fn write_request_changes_its_sectors_only() {
    let mut harness = Harness::new(false);
    harness.driver.memory.write_slice(&[0xab; 512], GuestAddress(DATA)).unwrap();
    assert_eq!(harness.request(OUT, 2, 512), (OK, 1));
    assert_eq!(harness.on_disk(2), [0xab; 512]);
    assert_eq!(harness.on_disk(1), [1; 512]);
    assert_eq!(harness.on_disk(3), [3; 512]);
    assert_eq!(harness.request(FLUSH, 0, 0), (OK, 1));
}

#[test]
fn get_id_is_truncated_to_the_buffer() {
    let mut harness = Harness::new(true);
    assert_eq!(harness.request(GET_ID, 0, 20), (OK, 21));
    assert_eq!(harness.driver.bytes(DATA, 20), b"uhyve-block\0\0\0\0\0\0\0\0\0");
    assert_eq!(harness.request(GET_ID, 0, 3), (OK, 4));
    assert_eq!(harness.request(GET_ID, 0, 100), (OK, 21));
}

#[test]
fn invalid_requests_fail_and_change_nothing() {
    let cases = [
        (IN, SECTORS, 512, IO_ERROR),
        (IN, SECTORS - 1, 1024, IO_ERROR),
        (IN, u64::MAX, 512, IO_ERROR),
        // The offset in bytes wraps around to 0.
        (IN, 1 << 55, 512, IO_ERROR),
        (IN, 0, 511, IO_ERROR),
        (OUT, SECTORS, 512, IO_ERROR),
        (OUT, SECTORS - 1, 1024, IO_ERROR),
        (OUT, u64::MAX - 1, 1024, IO_ERROR),
        (OUT, 0, 513, IO_ERROR),
        (2, 0, 512, UNSUPPORTED),
        (11, 0, 512, UNSUPPORTED),
        (u32::MAX, 0, 512, UNSUPPORTED),
    ];
    let mut harness = Harness::new(false);
    for (kind, sector, length, expected) in cases {
        assert_eq!(harness.request(kind, sector, length), (expected, 1), "{kind} {sector} {length}");
    }
    assert!(harness.is_unchanged());
}

#[test]
fn write_to_a_read_only_disk_fails() {
    let mut harness = Harness::new(true);
    assert_eq!(harness.request(OUT, 0, 512), (IO_ERROR, 1));
    assert_eq!(harness.request(FLUSH, 0, 0), (OK, 1));
    assert!(harness.is_unchanged());
}

#[test]
fn request_above_the_maximum_size_fails() {
    let mut harness = Harness::new(false);
    let large = tempfile::tempfile().unwrap();
    large.set_len(2 * u64::from(MAX_DATA)).unwrap();
    harness.block = Block::new(large, false).unwrap();
    harness.header(IN, 0);
    let mut request = vec![(HEADER, 16, false)];
    request.extend([(DATA, MAX_DATA / 16, true); 16]);
    for (extra, expected) in [(0, (OK, MAX_DATA + 1)), (512, (IO_ERROR, 1))] {
        let mut request = request.clone();
        request.extend([(DATA, extra, true), (STATUS, 1, true)]);
        assert_eq!(harness.send(&request).unwrap(), expected);
    }
}

#[test]
fn data_of_the_wrong_direction_fails() {
    let mut harness = Harness::new(false);
    harness.header(IN, 0);
    let request = [(HEADER, 16, false), (DATA, 512, false), (STATUS, 1, true)];
    assert_eq!(harness.send(&request).unwrap(), (IO_ERROR, 1));
    harness.header(OUT, 0);
    let request = [(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)];
    assert_eq!(harness.send(&request).unwrap(), (IO_ERROR, 1));
    assert!(harness.is_unchanged());
    assert_eq!(harness.driver.bytes(DATA, 512), [0; 512]);
}

#[test]
fn truncated_header_fails() {
    let mut harness = Harness::new(false);
    for length in [0, 1, 15] {
        assert_eq!(harness.send(&[(HEADER, length, false), (STATUS, 1, true)]).unwrap(), (IO_ERROR, 1));
    }
}

#[test]
fn chain_without_a_status_byte_stops_the_device() {
    for buffers in [&[(HEADER, 16, false)][..], &[(HEADER, 16, false), (STATUS, 0, true)]] {
        let mut harness = Harness::new(false);
        harness.header(FLUSH, 0);
        assert!(matches!(harness.send(buffers), Err(DeviceError::Direction)));
    }
}

#[test]
fn malformed_queues_are_rejected() {
    assert_rejects_malformed_queues(0, || Block::new(file(4096), false).unwrap());
}

#[test]
fn read_of_a_truncated_file_fails() {
    let mut harness = Harness::new(false);
    harness.file.set_len(512).unwrap();
    assert_eq!(harness.request(IN, 1, 512), (IO_ERROR, 1));
    assert_eq!(harness.request(IN, 0, 512), (OK, 513));
}

#[test]
fn write_to_a_file_opened_for_reading_fails() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4096).unwrap();
    let mut harness = Harness::new(false);
    harness.block = Block::new(File::open(file.path()).unwrap(), false).unwrap();
    assert_eq!(harness.request(OUT, 0, 512), (IO_ERROR, 1));
    assert_eq!(harness.request(IN, 0, 512), (OK, 513));
}

/// Splits a range into buffers at the given offsets.
fn split(address: u64, length: u32, writes: bool, offsets: &[u32]) -> Vec<(u64, u32, bool)> {
    let mut offsets: Vec<u32> =
        offsets.iter().map(|offset| offset % (length + 1)).chain([0, length]).collect();
    offsets.sort_unstable();
    let buffer = |pair: &[u32]| (address + u64::from(pair[0]), pair[1] - pair[0], writes);
    offsets.windows(2).map(buffer).collect()
}

proptest! {
    /// The boundaries of a request's buffers carry no meaning (virtio 1.2 §2.7.4).
    #[test]
    fn requests_do_not_depend_on_message_framing(
        header in prop::collection::vec(any::<u32>(), 0..4),
        data in prop::collection::vec(any::<u32>(), 0..6),
        sector in 0u64..SECTORS,
        count in 1u32..4,
    ) {
        let mut harness = Harness::new(false);
        let length = count * SECTOR_SIZE;
        let is_inside = sector + u64::from(count) <= SECTORS;
        let status = if is_inside { OK } else { IO_ERROR };
        harness.header(IN, sector);
        // The status is the last device-writable byte.
        let mut chain = split(HEADER, 16, false, &header);
        chain.extend(split(DATA, length, true, &data));
        chain.push((STATUS, 1, true));
        let written = if is_inside { length + 1 } else { 1 };
        prop_assert_eq!(harness.send(&chain).unwrap(), (status, written));
        let found = harness.driver.bytes(DATA, length.try_into().unwrap());
        let byte = |position: u32| if is_inside { u8::try_from(sector + u64::from(position / SECTOR_SIZE)).unwrap() } else { 0 };
        prop_assert_eq!(found, (0..length).map(byte).collect::<Vec<_>>());
        // Header and data in the same buffer.
        let bytes = vec![0x77; length.try_into().unwrap()];
        harness.driver.memory.write_slice(&bytes, GuestAddress(HEADER + 0x1000 + 16)).unwrap();
        let header = [&OUT.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        harness.driver.memory.write_slice(&header, GuestAddress(HEADER + 0x1000)).unwrap();
        let mut chain = split(HEADER + 0x1000, length + 16, false, &data);
        chain.push((STATUS, 1, true));
        prop_assert_eq!(harness.send(&chain).unwrap(), (status, 1));
        prop_assert_eq!(harness.on_disk(sector) == [0x77; 512], is_inside);
    }

    #[test]
    fn arbitrary_requests_do_not_resize_the_file(
        kind in prop_oneof![0u32..12, any::<u32>()],
        sector in prop_oneof![0..SECTORS + 2, any::<u64>()],
        buffers in prop::collection::vec((BUFFERS..MEMORY, 0u32..0x1_0000, any::<bool>()), 0..6),
    ) {
        let mut harness = Harness::new(false);
        harness.header(kind, sector);
        let mut chain = vec![(HEADER, 16, false)];
        chain.extend(buffers);
        chain.push((STATUS, 1, true));
        // Some chains are malformed; the others are used, whatever their status.
        let head = harness.driver.send(&chain);
        let result = harness.block.process(0, &mut harness.queue, &harness.driver.memory);
        prop_assert_eq!(harness.driver.used().first().map(|used| used.0), result.ok().map(|_| head.into()));
        prop_assert_eq!(harness.file.metadata().unwrap().len(), SECTORS * 512);
    }
}

#[test]
fn limited_disk_executes_requests_at_the_rate_and_the_rest_at_the_end() {
    let mut harness = Harness::new(false);
    let (limiter, time) = simulated("", "10/2");
    harness.block = harness.block.with_limiter(limiter);
    harness.header(IN, 0);
    for _ in 0..9 {
        harness.driver.send(&[(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)]);
    }
    let mut serve = |block: &mut Block| {
        let progress = block.process(0, &mut harness.queue, &harness.driver.memory).unwrap();
        (harness.driver.used().len(), progress, block.host_event(0).is_some())
    };
    let block = &mut harness.block;
    // Serving a queue again, as after a kick, must not admit more requests.
    for (milliseconds, count) in [(0, 2), (0, 0), (99, 0), (100, 1), (350, 2)] {
        time.store(milliseconds * 1_000_000, Relaxed);
        assert_eq!(serve(block), (count, QueueProgress::Blocked, true), "{milliseconds}");
    }
    block.lift_limits();
    assert_eq!(serve(block), (4, QueueProgress::Done, false));
}

#[test]
fn limited_disk_counts_the_bytes_of_requests() {
    let mut harness = Harness::new(false);
    let (limiter, time) = simulated("1000/100", "");
    harness.block = harness.block.with_limiter(limiter);
    harness.header(IN, 0);
    for _ in 0..2 {
        harness.driver.send(&[(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)]);
    }
    // The first request takes 529 tokens from a bucket of 100. The bucket must receive 430: 429 of debt, and
    // one for the next request.
    for (milliseconds, count) in [(0, 1), (429, 0), (430, 1)] {
        time.store(milliseconds * 1_000_000, Relaxed);
        let progress = harness.block.process(0, &mut harness.queue, &harness.driver.memory).unwrap();
        assert_eq!(
            (progress, harness.driver.used().len()),
            (QueueProgress::Blocked, count),
            "{milliseconds}"
        );
    }
}
