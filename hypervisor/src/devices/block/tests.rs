//! Tests of the disk.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use virtio_queue::Queue;
use vm_memory::{Bytes, GuestAddress};

use super::config::MAX_DATA;
use super::{Block, SECTOR_SIZE};
use crate::devices::virtio::test_utils::{BUFFERS, MEMORY, TestDriver, assert_refuses_hostile_chains};
use crate::devices::virtio::{DeviceError, Progress, VirtioDevice};

const SECTORS: u64 = 8;

/// Status (virtio 1.2, section 5.2.6).
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Types of request.
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;

/// Where the parts of a request are.
const HEADER: u64 = BUFFERS;
const STATUS: u64 = BUFFERS + 0x100;
const DATA: u64 = BUFFERS + 0x1000;

struct Harness {
    block: Block,
    file: File,
    driver: TestDriver,
    queue: Queue,
}

/// Each sector is filled with its number.
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

    /// The status, and how many bytes the device has written by its own account.
    fn send(&mut self, buffers: &[(u64, u32, bool)]) -> Result<(u8, u32), DeviceError> {
        self.driver.memory.write_obj(0xee_u8, GuestAddress(STATUS)).unwrap();
        let head = self.driver.send(buffers);
        let served = self.block.process(0, &mut self.queue, &self.driver.memory)?;
        assert_ne!(served, Progress::Blocked);
        let used = self.driver.used();
        assert_eq!((used.len(), used[0].0), (1, head.into()));
        Ok((self.driver.bytes(STATUS, 1)[0], used[0].1))
    }

    /// A request of the usual form: header, data, status.
    fn request(&mut self, kind: u32, sector: u64, length: u32) -> (u8, u32) {
        self.header(kind, sector);
        let from_device = matches!(kind, IN | GET_ID);
        self.send(&[(HEADER, 16, false), (DATA, length, from_device), (STATUS, 1, true)]).unwrap()
    }

    fn on_disk(&self, sector: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        self.file.read_exact_at(&mut bytes, sector * u64::from(SECTOR_SIZE)).unwrap();
        bytes
    }

    fn is_untouched(&self) -> bool {
        let is_same = |sector| self.on_disk(sector).iter().all(|&byte| u64::from(byte) == sector);
        self.file.metadata().unwrap().len() == SECTORS * 512 && (0..SECTORS).all(is_same)
    }
}

#[test]
fn the_configuration_tells_size_and_limits() {
    let block = Block::new(file(5 * 512 + 511), false).unwrap();
    let mut config = [0; 28];
    block.read_config(0, &mut config);
    // Capacity, size_max, seg_max, no geometry, blk_size, nothing (section 5.2.4).
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
fn sectors_are_read() {
    let mut rig = Harness::new(true);
    assert_eq!(rig.request(IN, 3, 1024), (OK, 1025));
    assert_eq!(rig.driver.bytes(DATA, 1024), [[3; 512], [4; 512]].concat());
    assert_eq!(rig.driver.bytes(DATA + 1024, 1), [0]);
    assert_eq!(rig.request(IN, SECTORS, 0), (OK, 1));
}

#[test]
fn sectors_are_written() {
    let mut rig = Harness::new(false);
    rig.driver.memory.write_slice(&[0xab; 512], GuestAddress(DATA)).unwrap();
    assert_eq!(rig.request(OUT, 2, 512), (OK, 1));
    assert_eq!(rig.on_disk(2), [0xab; 512]);
    assert_eq!(rig.on_disk(1), [1; 512]);
    assert_eq!(rig.on_disk(3), [3; 512]);
    assert_eq!(rig.request(FLUSH, 0, 0), (OK, 1));
}

#[test]
fn the_serial_number_is_told_as_far_as_there_is_room() {
    let mut rig = Harness::new(true);
    assert_eq!(rig.request(GET_ID, 0, 20), (OK, 21));
    assert_eq!(rig.driver.bytes(DATA, 20), b"uhyve-block\0\0\0\0\0\0\0\0\0");
    assert_eq!(rig.request(GET_ID, 0, 3), (OK, 4));
    assert_eq!(rig.request(GET_ID, 0, 100), (OK, 21));
}

#[test]
fn requests_that_make_no_sense_change_nothing() {
    let cases = [
        (IN, SECTORS, 512, IO_ERROR),
        (IN, SECTORS - 1, 1024, IO_ERROR),
        (IN, u64::MAX, 512, IO_ERROR),
        // The position in bytes is 0 in 64 bits.
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
    let mut rig = Harness::new(false);
    for (kind, sector, length, expected) in cases {
        assert_eq!(rig.request(kind, sector, length), (expected, 1), "{kind} {sector} {length}");
    }
    assert!(rig.is_untouched());
}

#[test]
fn a_read_only_disk_is_not_written() {
    let mut rig = Harness::new(true);
    assert_eq!(rig.request(OUT, 0, 512), (IO_ERROR, 1));
    assert_eq!(rig.request(FLUSH, 0, 0), (OK, 1));
    assert!(rig.is_untouched());
}

#[test]
fn a_request_has_a_bounded_size() {
    let mut rig = Harness::new(false);
    let large = tempfile::tempfile().unwrap();
    large.set_len(2 * u64::from(MAX_DATA)).unwrap();
    rig.block = Block::new(large, false).unwrap();
    rig.header(IN, 0);
    let mut request = vec![(HEADER, 16, false)];
    request.extend([(DATA, MAX_DATA / 16, true); 16]);
    for (extra, expected) in [(0, (OK, MAX_DATA + 1)), (512, (IO_ERROR, 1))] {
        let mut request = request.clone();
        request.extend([(DATA, extra, true), (STATUS, 1, true)]);
        assert_eq!(rig.send(&request).unwrap(), expected);
    }
}

#[test]
fn directions_matter() {
    let mut rig = Harness::new(false);
    rig.header(IN, 0);
    let request = [(HEADER, 16, false), (DATA, 512, false), (STATUS, 1, true)];
    assert_eq!(rig.send(&request).unwrap(), (IO_ERROR, 1));
    rig.header(OUT, 0);
    let request = [(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)];
    assert_eq!(rig.send(&request).unwrap(), (IO_ERROR, 1));
    assert!(rig.is_untouched());
    assert_eq!(rig.driver.bytes(DATA, 512), [0; 512]);
}

#[test]
fn a_short_header_is_an_error() {
    let mut rig = Harness::new(false);
    for length in [0, 1, 15] {
        assert_eq!(rig.send(&[(HEADER, length, false), (STATUS, 1, true)]).unwrap(), (IO_ERROR, 1));
    }
}

#[test]
fn without_room_for_a_status_the_driver_is_broken() {
    for buffers in [&[(HEADER, 16, false)][..], &[(HEADER, 16, false), (STATUS, 0, true)]] {
        let mut rig = Harness::new(false);
        rig.header(FLUSH, 0);
        assert!(matches!(rig.send(buffers), Err(DeviceError::Direction)));
    }
}

#[test]
fn hostile_chains_are_refused() {
    assert_refuses_hostile_chains(0, || Block::new(file(4096), false).unwrap());
}

#[test]
fn a_file_that_has_become_shorter_is_an_error() {
    let mut rig = Harness::new(false);
    rig.file.set_len(512).unwrap();
    assert_eq!(rig.request(IN, 1, 512), (IO_ERROR, 1));
    assert_eq!(rig.request(IN, 0, 512), (OK, 513));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4096).unwrap();
    let mut rig = Harness::new(false);
    rig.block = Block::new(File::open(file.path()).unwrap(), false).unwrap();
    assert_eq!(rig.request(OUT, 0, 512), (IO_ERROR, 1));
    assert_eq!(rig.request(IN, 0, 512), (OK, 513));
}

/// Cuts a range into pieces at the given places.
fn cut(address: u64, length: u32, writes: bool, cuts: &[u32]) -> Vec<(u64, u32, bool)> {
    let mut places: Vec<u32> = cuts.iter().map(|cut| cut % (length + 1)).chain([0, length]).collect();
    places.sort_unstable();
    let piece = |pair: &[u32]| (address + u64::from(pair[0]), pair[1] - pair[0], writes);
    places.windows(2).map(piece).collect()
}

proptest! {
    /// How a request is cut into buffers means nothing (section 2.7.4).
    #[test]
    fn framing_means_nothing(
        header in prop::collection::vec(any::<u32>(), 0..4),
        data in prop::collection::vec(any::<u32>(), 0..6),
        sector in 0u64..SECTORS,
        count in 1u32..4,
    ) {
        let mut rig = Harness::new(false);
        let length = count * SECTOR_SIZE;
        let is_inside = sector + u64::from(count) <= SECTORS;
        let status = if is_inside { OK } else { IO_ERROR };
        rig.header(IN, sector);
        // The status is the last byte of whatever the device may write.
        let mut chain = cut(HEADER, 16, false, &header);
        chain.extend(cut(DATA, length, true, &data));
        chain.push((STATUS, 1, true));
        let written = if is_inside { length + 1 } else { 1 };
        prop_assert_eq!(rig.send(&chain).unwrap(), (status, written));
        let found = rig.driver.bytes(DATA, length.try_into().unwrap());
        let byte = |position: u32| if is_inside { u8::try_from(sector + u64::from(position / SECTOR_SIZE)).unwrap() } else { 0 };
        prop_assert_eq!(found, (0..length).map(byte).collect::<Vec<_>>());
        // Header and data in the same buffer.
        let bytes = vec![0x77; length.try_into().unwrap()];
        rig.driver.memory.write_slice(&bytes, GuestAddress(HEADER + 0x1000 + 16)).unwrap();
        let header = [&OUT.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        rig.driver.memory.write_slice(&header, GuestAddress(HEADER + 0x1000)).unwrap();
        let mut chain = cut(HEADER + 0x1000, length + 16, false, &data);
        chain.push((STATUS, 1, true));
        prop_assert_eq!(rig.send(&chain).unwrap(), (status, 1));
        prop_assert_eq!(rig.on_disk(sector) == [0x77; 512], is_inside);
    }

    #[test]
    fn no_request_changes_the_size_of_the_disk(
        kind in prop_oneof![0u32..12, any::<u32>()],
        sector in prop_oneof![0..SECTORS + 2, any::<u64>()],
        buffers in prop::collection::vec((BUFFERS..MEMORY, 0u32..0x1_0000, any::<bool>()), 0..6),
    ) {
        let mut rig = Harness::new(false);
        rig.header(kind, sector);
        let mut chain = vec![(HEADER, 16, false)];
        chain.extend(buffers);
        chain.push((STATUS, 1, true));
        // Whether it works does not matter; some chains break the rules.
        let head = rig.driver.send(&chain);
        let result = rig.block.process(0, &mut rig.queue, &rig.driver.memory);
        prop_assert_eq!(rig.driver.used().first().map(|used| used.0), result.ok().map(|_| head.into()));
        prop_assert_eq!(rig.file.metadata().unwrap().len(), SECTORS * 512);
    }
}
