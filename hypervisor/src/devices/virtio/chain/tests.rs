//! Tests of descriptor chains, also malformed ones.

use super::{Buffers, Chain, Completion, Slices, has_available, serve_chains};
use crate::devices::virtio::test_utils::{BUFFERS, INDIRECT, NEXT, TestDriver, WRITE};
use crate::devices::virtio::{DeviceError, QueueProgress, WORK_LIMIT};
use proptest::collection::vec;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap, Permissions};

fn next(driver: &TestDriver) -> Result<Option<Chain>, DeviceError> {
    Chain::next(&mut driver.queue(), &driver.memory)
}

fn read(buffers: &mut Buffers, memory: &GuestMemoryMmap, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    let count = buffers.read(memory, &mut data).unwrap();
    data.truncate(count);
    data
}

#[test]
fn chain_has_readable_and_writable_buffers() {
    let mut driver = TestDriver::new(16);
    assert!(!has_available(&driver.queue(), &driver.memory).unwrap());
    assert!(next(&driver).unwrap().is_none());
    driver.memory.write_slice(b"onetwo", GuestAddress(BUFFERS)).unwrap();
    driver.send(&[
        (BUFFERS, 3, false),
        (BUFFERS + 9, 0, true),
        (BUFFERS + 3, 3, false),
        (BUFFERS + 16, 2, true),
        (BUFFERS + 32, 4, true),
    ]);
    assert!(has_available(&driver.queue(), &driver.memory).unwrap());
    let mut chain = next(&driver).unwrap().unwrap();
    assert_eq!((chain.head, chain.readable.length(), chain.writable.length()), (0, 6, 6));
    assert_eq!(chain.length(), 12);
    assert_eq!(read(&mut chain.readable, &driver.memory, 4), b"onet");
    assert_eq!(read(&mut chain.readable, &driver.memory, 4), b"wo");
    assert!(chain.readable.is_empty());
    assert_eq!(chain.writable.write(&driver.memory, b"abc").unwrap(), 3);
    assert_eq!(chain.writable.write(&driver.memory, b"defg").unwrap(), 3);
    assert_eq!(driver.bytes(BUFFERS + 16, 2), b"ab");
    assert_eq!(driver.bytes(BUFFERS + 32, 4), b"cdef");
}

#[test]
fn chain_length_is_limited_to_the_queue_size() {
    for (count, is_valid) in [(16, true), (17, false)] {
        let mut driver = TestDriver::new(16);
        (0..count - 1).for_each(|index| driver.describe_at(BUFFERS, index, (BUFFERS, 1, NEXT, index + 1)));
        driver.describe_at(BUFFERS, count - 1, (BUFFERS, 1, 0, 0));
        driver.describe(0, (BUFFERS, 16 * u32::from(count), INDIRECT, 0));
        driver.offer(0);
        assert_eq!(next(&driver).is_ok(), is_valid, "{count}");
    }
}

#[test]
fn slices_are_collected_up_to_their_maximum() {
    let mut driver = TestDriver::new(256);
    driver.send(&(0..200).map(|buffer| (BUFFERS + buffer, 1, true)).collect::<Vec<_>>());
    let buffers = next(&driver).unwrap().unwrap().into_writable().unwrap();
    for (max, count) in [(0, 0), (10, 10), (199, 199), (usize::MAX, 200)] {
        let mut slices = Slices::new();
        buffers.append_slices(0, &driver.memory, Permissions::Write, max, &mut slices).unwrap();
        assert_eq!(slices.len(), count);
    }
}

#[test]
fn malformed_chain_is_an_error() {
    for (name, driver) in TestDriver::malformed_queues(16) {
        assert!(next(&driver).is_err(), "{name}");
    }
}

#[test]
fn empty_indirect_table_is_an_error() {
    let mut driver = TestDriver::new(16);
    driver.describe(0, (BUFFERS, 0, INDIRECT, 0));
    driver.offer(0);
    assert!(matches!(next(&driver), Err(DeviceError::Chain)));
}

#[test]
fn total_length_above_32_bits_is_an_error() {
    // virtio-queue ends the iteration at the overflow, before the check of the buffer.
    let mut driver = TestDriver::new(16);
    driver.describe(0, (BUFFERS, 0x1000, NEXT, 1));
    driver.describe(1, (BUFFERS, u32::MAX, 0, 0));
    driver.offer(0);
    assert!(matches!(next(&driver), Err(DeviceError::Chain)));
}

#[test]
fn chain_of_empty_buffers_is_valid() {
    let mut driver = TestDriver::new(16);
    // The address of an empty buffer has no meaning.
    driver.send(&[(u64::MAX, 0, false), (u64::MAX, 0, true)]);
    assert_eq!(next(&driver).unwrap().unwrap().length(), 0);
}

#[test]
fn wrong_direction_is_an_error() {
    let mut driver = TestDriver::new(16);
    driver.send(&[(BUFFERS, 1, false), (BUFFERS, 1, true)]);
    assert!(matches!(next(&driver).unwrap().unwrap().into_readable(), Err(DeviceError::Direction)));
    assert!(matches!(next(&driver).unwrap().unwrap().into_writable(), Err(DeviceError::Direction)));
    let mut driver = TestDriver::new(16);
    driver.describe(0, (BUFFERS, 7, WRITE, 0));
    driver.offer(0);
    assert_eq!(next(&driver).unwrap().unwrap().into_writable().unwrap().length(), 7);
}

#[test]
fn serve_chains_stops_at_the_end_or_the_work_limit() {
    let mut driver = TestDriver::new(4);
    let mut queue = driver.queue();
    // More chains than a ring index has values.
    for _ in 0..0x1_2000 {
        let head = driver.send(&[(BUFFERS, 1, false)]);
        let served = serve_chains(&mut queue, &driver.memory, |_| Ok(Completion { written: 3, work: 1 }));
        assert_eq!(served.unwrap(), QueueProgress::Done);
        assert_eq!(driver.used(), [(head.into(), 3)]);
    }
    let mut serve = |driver: &TestDriver, work| {
        serve_chains(&mut queue, &driver.memory, |_| Ok(Completion { written: 0, work })).unwrap()
    };
    for _ in 0..4 {
        driver.send(&[(BUFFERS, 1, false)]);
    }
    assert_eq!(serve(&driver, WORK_LIMIT / 2), QueueProgress::Yielded);
    assert_eq!(driver.used().len(), 2);
    assert_eq!(serve(&driver, u64::MAX), QueueProgress::Yielded);
    assert_eq!(driver.used().len(), 1);
    assert_eq!(serve(&driver, 0), QueueProgress::Done);
    assert_eq!(driver.used().len(), 1);
}

#[test]
fn serve_chains_yields_although_the_guest_adds_chains() {
    let mut driver = TestDriver::new(4);
    let mut queue = driver.queue();
    let memory = driver.memory.clone();
    driver.send(&[(BUFFERS, 1, false)]);
    let served = serve_chains(&mut queue, &memory, |_| {
        driver.send(&[(BUFFERS, 1, false)]);
        Ok(Completion { written: 0, work: 0 })
    });
    assert_eq!(served.unwrap(), QueueProgress::Yielded);
    assert_eq!(driver.used().len(), 4);
}

proptest! {
    /// The bytes of a chain do not depend on the boundaries of its buffers.
    #[test]
    fn take_and_read_return_all_bytes_in_order(lengths in vec(0u32..40, 1..16), counts in vec(0usize..60, 0..8)) {
        let mut driver = TestDriver::new(16);
        let mut buffers = Vec::new();
        let mut expected = Vec::new();
        for (number, length) in (0u8..).zip(lengths) {
            let address = BUFFERS + 64 * u64::from(number);
            let bytes = vec![number; usize::try_from(length).unwrap()];
            driver.memory.write_slice(&bytes, GuestAddress(address)).unwrap();
            expected.extend(bytes);
            buffers.push((address, length, false));
        }
        driver.send(&buffers);
        let mut rest = next(&driver).unwrap().unwrap().into_readable().unwrap();
        let mut found = Vec::new();
        for count in counts {
            let before = rest.length();
            let mut front = rest.take(count);
            prop_assert_eq!(front.length(), count.min(before));
            prop_assert_eq!(front.length() + rest.length(), before);
            let length = front.length();
            found.extend(read(&mut front, &driver.memory, length));
        }
        rest.for_each_slice(&driver.memory, Permissions::Read, |slice| {
            let mut bytes = vec![0; slice.len()];
            slice.copy_to(&mut bytes[..]);
            found.extend(bytes);
            Ok(())
        }).unwrap();
        prop_assert_eq!(found, expected);
    }
}
