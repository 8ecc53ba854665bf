//! The block driver with a device model over a disk in memory, and with invalid answers.
//!
//! The test is the device: it takes a request from the virtqueue when it wants to, and serves it from the
//! disk in memory. So requests complete in any order, late, or never.

mod waiting;

use core::task::Waker;
use proptest::prelude::*;
use std::collections::HashMap;
use std::vec;
use std::vec::Vec;

use super::{BlockDriver, BlockError, BlockRequestError, CompletedRequest, MAX_TRANSFER, Ticket};
use crate::device::{DeviceError, InitError};
use crate::dma::DataPlan;
use crate::testing::{DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice, TakenChain};
use crate::virtqueue::QueueError;

const SIZE_MAX: u64 = 1 << 1;
const SEG_MAX: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;

type Driver = BlockDriver<FakeTransport, FakeMemory>;

/// A device model with a disk. Tests decide when it serves requests.
struct TestDisk {
    model: SharedDevice,
    bytes: Vec<u8>,
    flushes: usize,
}

impl TestDisk {
    /// Creates a disk of `sectors` sectors, with these fields in its configuration.
    fn new(features: u64, sectors: u64, [size_max, seg_max, block_size]: [u32; 3]) -> Self {
        let model = DeviceModel::new(2, features, &[64]);
        let mut config = sectors.to_le_bytes().to_vec();
        for field in [size_max, seg_max, 0, block_size] {
            config.extend(field.to_le_bytes());
        }
        model.lock().unwrap().config = config;
        // Makes the contents sector by sector, because Miri takes seconds to make them byte by byte.
        let sectors = (0..sectors).map(|sector| [u8::try_from(sector % 251).unwrap(); 512]);
        Self { model, bytes: sectors.collect::<Vec<_>>().concat(), flushes: 0 }
    }

    /// Creates a driver that has buffers for this number of requests.
    fn open(&self, requests: u16) -> Result<Driver, InitError> {
        let dma = FakeDma::new(&self.model.lock().unwrap().memory, 200);
        let mut block = BlockDriver::new(FakeTransport::new(&self.model, true), &dma, requests)?;
        for _ in 1..requests {
            block.add(DataPlan::new(block.max_transfer(), block.device.permit()).allocate(&dma));
        }
        Ok(block)
    }

    fn take(&self) -> Option<TakenChain> {
        self.model.lock().unwrap().take(0)
    }

    /// Serves a request and marks its chain as used.
    fn serve(&mut self, chain: &TakenChain) {
        let mut model = self.model.lock().unwrap();
        let read = model.gather(chain);
        let kind = u32::from_le_bytes(read[..4].try_into().unwrap());
        let sector = u64::from_le_bytes(read[8..16].try_into().unwrap());
        let start = usize::try_from(sector).unwrap() * 512;
        let room: u32 = chain.parts.iter().filter(|part| part.2).map(|part| part.1).sum();
        let mut answer = Vec::new();
        match kind {
            0 => answer.extend(&self.bytes[start..start + usize::try_from(room).unwrap() - 1]),
            1 => self.bytes[start..start + read.len() - 16].copy_from_slice(&read[16..]),
            4 => self.flushes += 1,
            _ => panic!("request {kind}"),
        }
        answer.push(0);
        let written = model.scatter(chain, &answer);
        assert_eq!(written, room);
        model.use_chain(0, chain.head, written);
    }

    fn serve_all(&mut self) {
        while let Some(chain) = self.take() {
            self.serve(&chain);
        }
    }
}

fn disk_with_flush(sectors: u64) -> TestDisk {
    TestDisk::new(FLUSH, sectors, [0; 3])
}

/// Takes the served requests out of the queue, and returns one of them.
fn next_served(block: &mut Driver) -> Result<Option<CompletedRequest<FakeMemory>>, DeviceError> {
    // A failure is returned by `take`, too.
    let _cause: Result<_, _> = block.interrupt();
    for ticket in block.slots.tickets() {
        if let Some(request) = block.take(ticket, Waker::noop())? {
            return Ok(Some(request));
        }
    }
    Ok(None)
}

/// Completes a request. Returns its ticket, and the data of a read.
fn complete(block: &mut Driver) -> Option<(Ticket, Result<Vec<u8>, BlockRequestError>)> {
    let completion = next_served(block).unwrap()?;
    let data = completion.result().map(|length| {
        let mut bytes = vec![0; length];
        assert_eq!(completion.read(0, &mut bytes), length);
        bytes
    });
    let ticket = completion.ticket();
    block.release(completion);
    Some((ticket, data))
}

#[test]
fn written_data_is_read_back() {
    let mut disk = disk_with_flush(100);
    let mut block = disk.open(4).unwrap();
    assert_eq!((block.capacity(), block.block_size(), block.max_transfer()), (100, 512, MAX_TRANSFER));
    assert!(!block.is_read_only() && block.has_flush());
    let written = block.submit_write(3, &[0xab; 1024], Waker::noop()).unwrap();
    disk.serve_all();
    assert_eq!(complete(&mut block), Some((written, Ok(Vec::new()))));
    let read = block.submit_read(2, 4, Waker::noop()).unwrap();
    assert_eq!(complete(&mut block), None);
    disk.serve_all();
    assert_eq!(disk.model.lock().unwrap().queues[0].interrupts, 2);
    let expected = [vec![2; 512], vec![0xab; 1024], vec![5; 512]].concat();
    assert_eq!(complete(&mut block), Some((read, Ok(expected))));
    let flush = block.submit_flush(Waker::noop()).unwrap();
    disk.serve_all();
    assert_eq!(complete(&mut block), Some((flush, Ok(Vec::new()))));
    assert_eq!(disk.flushes, 1);
}

#[test]
fn request_takes_three_descriptors_and_one_notification() {
    let disk = disk_with_flush(1000);
    let mut block = disk.open(4).unwrap();
    assert!(block.submit_read(0, 128, Waker::noop()).is_ok());
    let chain = disk.take().unwrap();
    let lengths: Vec<_> = chain.parts.iter().map(|part| (part.1, part.2)).collect();
    assert_eq!(lengths, [(16, false), (0x1_0000, true), (1, true)]);
    assert_eq!(disk.model.lock().unwrap().queues[0].notified, 1);
}

#[test]
fn completion_copies_parts_of_data() {
    let mut disk = disk_with_flush(10);
    let mut block = disk.open(1).unwrap();
    block.submit_read(1, 2, Waker::noop()).unwrap();
    disk.serve_all();
    let completion = next_served(&mut block).unwrap().unwrap();
    let mut bytes = [0xff; 8];
    assert_eq!(completion.read(508, &mut bytes), 8);
    assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(completion.read(1020, &mut bytes), 4);
    assert_eq!(completion.read(1024, &mut bytes), 0);
    assert_eq!(completion.read(usize::MAX, &mut bytes), 0);
    block.release(completion);
}

#[test]
fn requests_complete_in_any_order() {
    let mut disk = disk_with_flush(100);
    let mut block = disk.open(4).unwrap();
    let tickets: Vec<_> = (0..4).map(|sector| block.submit_read(sector, 1, Waker::noop()).unwrap()).collect();
    assert_eq!(block.submit_read(4, 1, Waker::noop()), Err(BlockError::Busy));
    let chains: Vec<_> = core::iter::from_fn(|| disk.take()).collect();
    for byte in [2, 0, 3, 1] {
        disk.serve(&chains[byte]);
        let expected = vec![u8::try_from(byte).unwrap(); 512];
        assert_eq!(complete(&mut block), Some((tickets[byte], Ok(expected))));
    }
    assert!(block.submit_read(4, 1, Waker::noop()).is_ok());
}

#[test]
fn unreleased_completion_keeps_its_buffers() {
    let mut disk = disk_with_flush(10);
    let mut block = disk.open(1).unwrap();
    block.submit_read(7, 1, Waker::noop()).unwrap();
    disk.serve_all();
    let completion = next_served(&mut block).unwrap().unwrap();
    assert_eq!(block.submit_read(0, 1, Waker::noop()), Err(BlockError::Busy));
    block.release(completion);
    assert!(block.submit_read(0, 1, Waker::noop()).is_ok());
}

#[test]
fn invalid_ranges_are_refused_before_submission() {
    let disk = disk_with_flush(200);
    let mut block = disk.open(2).unwrap();
    assert_eq!(block.submit_read(200, 1, Waker::noop()), Err(BlockError::OutOfRange));
    assert_eq!(block.submit_read(199, 2, Waker::noop()), Err(BlockError::OutOfRange));
    assert_eq!(block.submit_read(u64::MAX, 1, Waker::noop()), Err(BlockError::OutOfRange));
    assert_eq!(block.submit_write(200, &[0; 512], Waker::noop()), Err(BlockError::OutOfRange));
    assert_eq!(block.submit_read(0, 0, Waker::noop()), Err(BlockError::Size));
    assert_eq!(block.submit_read(0, usize::MAX, Waker::noop()), Err(BlockError::Size));
    assert_eq!(block.submit_read(0, 129, Waker::noop()), Err(BlockError::Size));
    assert_eq!(block.submit_write(0, &[0; 511], Waker::noop()), Err(BlockError::Size));
    assert_eq!(block.submit_write(0, &[], Waker::noop()), Err(BlockError::Size));
    assert_eq!(disk.take(), None);
    assert!(block.submit_read(199, 1, Waker::noop()).is_ok());
}

#[test]
fn read_only_device_refuses_writes() {
    let mut disk = TestDisk::new(READ_ONLY, 10, [0; 3]);
    let mut block = disk.open(2).unwrap();
    assert!(block.is_read_only() && !block.has_flush());
    assert_eq!(block.submit_write(0, &[0; 512], Waker::noop()), Err(BlockError::ReadOnly));
    assert_eq!(block.submit_flush(Waker::noop()), Err(BlockError::Unsupported));
    assert!(block.submit_read(9, 1, Waker::noop()).is_ok());
    disk.serve_all();
    assert_eq!(complete(&mut block).map(|done| done.1), Some(Ok(vec![9; 512])));
}

#[test]
fn requests_respect_size_max_and_seg_max() {
    let mut disk = TestDisk::new(SIZE_MAX | SEG_MAX, 100, [1000, 7, 0]);
    let mut block = disk.open(2).unwrap();
    assert_eq!(block.max_transfer(), 6656);
    assert_eq!(block.submit_read(0, 14, Waker::noop()), Err(BlockError::Size));
    block.submit_read(0, 13, Waker::noop()).unwrap();
    let chain = disk.take().unwrap();
    let lengths: Vec<_> = chain.parts.iter().map(|part| part.1).collect();
    assert_eq!(lengths, [16, 1000, 1000, 1000, 1000, 1000, 1000, 656, 1]);
    disk.serve(&chain);
    let data = complete(&mut block).unwrap().1.unwrap();
    assert_eq!(data, disk.bytes[..6656]);
}

#[test]
fn requests_respect_block_size() {
    let disk = TestDisk::new(BLK_SIZE, 100, [0, 0, 4096]);
    let mut block = disk.open(2).unwrap();
    assert_eq!((block.block_size(), block.capacity()), (4096, 100));
    assert_eq!(block.submit_read(4, 8, Waker::noop()), Err(BlockError::Size));
    assert_eq!(block.submit_read(8, 4, Waker::noop()), Err(BlockError::Size));
    assert!(block.submit_read(8, 8, Waker::noop()).is_ok());
    let mut block = TestDisk::new(BLK_SIZE, 1000, [0, 0, 1 << 16]).open(1).unwrap();
    assert_eq!(block.submit_read(64, 128, Waker::noop()), Err(BlockError::Size));
    assert!(block.submit_read(128, 128, Waker::noop()).is_ok());
}

#[test]
fn invalid_configurations_are_refused() {
    let open =
        |features, fields| TestDisk::new(features, 100, fields).open(2).map(|block| block.max_transfer());
    for block_size in [0, 1, 256, 513, 1 << 17, 1 << 31] {
        assert_eq!(open(BLK_SIZE, [0, 0, block_size]), Err(InitError::InvalidConfig), "{block_size}");
    }
    assert_eq!(open(SIZE_MAX, [0; 3]), Err(InitError::InvalidConfig));
    // Less than one sector, or one block, per request.
    assert_eq!(open(SIZE_MAX | SEG_MAX, [255, 2, 0]), Err(InitError::InvalidConfig));
    assert_eq!(open(SIZE_MAX | SEG_MAX | BLK_SIZE, [1024, 3, 4096]), Err(InitError::InvalidConfig));
    assert_eq!(open(SIZE_MAX | SEG_MAX, [256, 2, 0]), Ok(512));
    assert_eq!(open(SEG_MAX, [0, 0, 0]), Ok(MAX_TRANSFER));
    // The virtqueue limits the number of segments to 62, of 16 bytes each.
    assert_eq!(open(SIZE_MAX, [16, 0, 0]), Ok(512));
    let disk = disk_with_flush(100);
    disk.model.lock().unwrap().queues[0].max_size = 2;
    assert_eq!(disk.open(1).unwrap_err(), InitError::InvalidConfig);
    disk.model.lock().unwrap().config.truncate(7);
    assert_eq!(disk.open(1).unwrap_err(), InitError::InvalidConfig);
}

#[test]
fn capacity_is_read_again_on_config_change() {
    let disk = disk_with_flush(10);
    let mut block = disk.open(1).unwrap();
    disk.model.lock().unwrap().config[..8].copy_from_slice(&20_u64.to_le_bytes());
    disk.model.lock().unwrap().interrupt_status = 1;
    assert_eq!(block.interrupt().map(|cause| cause.config), Ok(false));
    assert_eq!(block.capacity(), 10);
    disk.model.lock().unwrap().interrupt_status = 2;
    assert_eq!(block.interrupt().map(|cause| cause.config), Ok(true));
    assert_eq!(block.capacity(), 20);
}

/// Result of a read of one sector if the device answers with this status and length.
fn completion_of(
    status: Option<u8>,
    written: u32,
) -> Result<Option<CompletedRequest<FakeMemory>>, DeviceError> {
    let disk = disk_with_flush(10);
    let mut block = disk.open(1).unwrap();
    block.submit_read(0, 1, Waker::noop()).unwrap();
    let chain = disk.take().unwrap();
    {
        let mut model = disk.model.lock().unwrap();
        if let Some(status) = status {
            model.memory.write(chain.parts[2].0, &[status]);
        }
        model.use_chain(0, chain.head, written);
    }
    next_served(&mut block)
}

#[test]
fn status_maps_to_request_error() {
    let result = |status, written| completion_of(status, written).unwrap().unwrap().result();
    assert_eq!(result(Some(0), 513), Ok(512));
    assert_eq!(result(Some(1), 513), Err(BlockRequestError::InputOutput));
    assert_eq!(result(Some(2), 513), Err(BlockRequestError::Unsupported));
    assert_eq!(result(Some(3), 513), Err(BlockRequestError::InputOutput));
    assert_eq!(result(Some(0xff), 513), Err(BlockRequestError::InputOutput));
    // No status, or too few bytes written.
    assert_eq!(result(None, 513), Err(BlockRequestError::InputOutput));
    assert_eq!(result(Some(0), 512), Err(BlockRequestError::InputOutput));
    assert_eq!(result(Some(0), 0), Err(BlockRequestError::InputOutput));
}

#[test]
fn failed_read_returns_no_data() {
    let completion = completion_of(Some(1), 513).unwrap().unwrap();
    let mut bytes = [7; 16];
    assert_eq!(completion.read(0, &mut bytes), 0);
    assert_eq!(bytes, [7; 16]);
}

#[test]
fn invalid_answers_break_device() {
    let error = DeviceError::Queue(QueueError::TooLong);
    assert_eq!(completion_of(Some(0), 514).map(|_| ()).unwrap_err(), error);
    let disk = disk_with_flush(10);
    let mut block = disk.open(2).unwrap();
    block.submit_read(0, 1, Waker::noop()).unwrap();
    disk.model.lock().unwrap().set_used_index(0, 2);
    let error = DeviceError::Queue(QueueError::IndexJump);
    assert_eq!(next_served(&mut block).map(|_| ()), Err(error));
    assert_eq!(block.submit_read(0, 1, Waker::noop()), Err(error.into()));
    assert_eq!(block.interrupt(), Err(error));
    assert_eq!(block.check_status(), Err(error));
}

#[test]
#[cfg_attr(miri, ignore = "65,536 requests take minutes")]
fn requests_continue_after_ring_index_wrap() {
    let mut disk = TestDisk::new(0, 64, [0; 3]);
    let mut block = disk.open(2).unwrap();
    for round in 0..66_000_u64 {
        let ticket = block.submit_read(round % 64, 1, Waker::noop()).unwrap();
        disk.serve_all();
        let (completed, data) = complete(&mut block).unwrap();
        assert_eq!((completed, u64::from(data.unwrap()[511])), (ticket, round % 64));
    }
}

#[derive(Clone, Debug)]
enum RandomAction {
    Read(u64, usize),
    Write(u64, usize, u8),
    /// The device serves one of the requests that it has taken.
    Serve(usize),
    Complete,
}

fn action() -> impl Strategy<Value = RandomAction> {
    prop_oneof![
        (0_u64..40, 0_usize..6).prop_map(|(sector, count)| RandomAction::Read(sector, count)),
        (0_u64..40, 0_usize..6, 1_u8..)
            .prop_map(|(sector, count, byte)| RandomAction::Write(sector, count, byte)),
        (0_usize..8).prop_map(RandomAction::Serve),
        Just(RandomAction::Complete),
    ]
}

proptest! {
    #[test]
    fn every_request_completes_with_its_own_data(actions in prop::collection::vec(action(), 0..if cfg!(miri) { 30 } else { 150 })) {
        let mut disk = TestDisk::new(SIZE_MAX, 32, [700, 0, 0]);
        let mut block = disk.open(4).unwrap();
        let mut device = Vec::new();
        let mut expected: HashMap<Ticket, (u16, Option<Vec<u8>>)> = HashMap::new();
        let mut heads = HashMap::new();
        for action in actions {
            let submitted = match action {
                RandomAction::Read(sector, count) => block.submit_read(sector, count, Waker::noop()),
                RandomAction::Write(sector, count, byte) => block.submit_write(sector, &vec![byte; count * 512], Waker::noop()),
                RandomAction::Serve(index) if !device.is_empty() => {
                    let chain: TakenChain = device.swap_remove(index % device.len());
                    disk.serve(&chain);
                    let room: u32 = chain.parts.iter().filter(|part| part.2).map(|part| part.1).sum();
                    let start: u64 = heads[&chain.head];
                    let (start, end) = (usize::try_from(start * 512).unwrap(), usize::try_from(room - 1).unwrap());
                    let ticket = expected.iter().find(|(_, known)| known.0 == chain.head).map(|(ticket, _)| *ticket);
                    let data = disk.bytes[start..start + end].to_vec();
                    expected.insert(ticket.unwrap(), (chain.head, Some(data)));
                    continue;
                }
                RandomAction::Serve(_) => continue,
                RandomAction::Complete => {
                    if let Some((ticket, data)) = complete(&mut block) {
                        let (_, wanted) = expected.remove(&ticket).unwrap();
                        prop_assert_eq!(Some(data.unwrap()), wanted);
                    }
                    continue;
                }
            };
            let Ok(ticket) = submitted else { continue };
            let chain = disk.take().unwrap();
            let header = disk.model.lock().unwrap().gather(&chain);
            heads.insert(chain.head, u64::from_le_bytes(header[8..16].try_into().unwrap()));
            prop_assert!(expected.insert(ticket, (chain.head, None)).is_none());
            device.push(chain);
        }
    }
}
