//! Tests of the entropy device.

use super::config::MAX_REQUEST;
use super::{Entropy, HostRandom};
use crate::devices::virtio::test_utils::{BUFFERS, TestDriver, assert_rejects_malformed_queues};
use crate::devices::virtio::{DeviceError, QueueProgress, VirtioDevice};
use std::io;
use virtio_queue::Queue;

/// Source whose bytes count upwards.
#[derive(Debug, Default)]
struct Counting(u8);

impl io::Read for Counting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        for byte in bytes.iter_mut() {
            *byte = self.0;
            self.0 = self.0.wrapping_add(1);
        }
        Ok(bytes.len())
    }
}

fn process(
    device: &mut impl VirtioDevice,
    queue: &mut Queue,
    driver: &TestDriver,
) -> Result<QueueProgress, DeviceError> {
    device.process(0, queue, &driver.memory)
}

#[test]
fn device_fills_every_buffer_of_a_chain() {
    let (mut device, mut driver) = (Entropy::new(Counting::default()), TestDriver::new(16));
    let mut queue = driver.queue();
    let head = driver.send(&[(BUFFERS, 3, true), (BUFFERS + 16, 0, true), (BUFFERS + 32, 2, true)]);
    assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), QueueProgress::Done);
    assert_eq!(driver.used(), [(head.into(), 5)]);
    assert_eq!(driver.bytes(BUFFERS, 4), [0, 1, 2, 0]);
    assert_eq!(driver.bytes(BUFFERS + 32, 3), [3, 4, 0]);
}

#[test]
fn request_beyond_the_limit_is_filled_in_part() {
    let (mut device, mut driver) = (Entropy::new(io::repeat(7)), TestDriver::new(16));
    let mut queue = driver.queue();
    // 16 buffers at the same address: more bytes than guest memory has.
    driver.send(&[(BUFFERS, 0x2_0000, true); 16]);
    assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), QueueProgress::Done);
    assert_eq!(driver.used(), [(0, u32::try_from(MAX_REQUEST).unwrap())]);
    assert_eq!(driver.bytes(BUFFERS + 0xffff, 2), [7, 0]);
}

#[test]
fn device_yields_at_the_work_limit() {
    let (mut device, mut driver) = (Entropy::new(io::repeat(7)), TestDriver::new(16));
    let mut queue = driver.queue();
    for _ in 0..8 {
        driver.send(&[(BUFFERS, 0x1_0000, true)]);
    }
    assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), QueueProgress::Yielded);
    assert_eq!(driver.used().len(), 4);
}

#[test]
fn invalid_chains_are_rejected() {
    assert_rejects_malformed_queues(0, || Entropy::new(Counting::default()));
    let (mut device, mut driver) = (Entropy::new(Counting::default()), TestDriver::new(16));
    let mut queue = driver.queue();
    driver.send(&[(BUFFERS, 1, false), (BUFFERS, 1, true)]);
    assert!(matches!(process(&mut device, &mut queue, &driver), Err(DeviceError::Direction)));
}

#[test]
fn failing_source_completes_no_chain() {
    let (mut device, mut driver) = (Entropy::new(io::empty()), TestDriver::new(16));
    let mut queue = driver.queue();
    driver.send(&[(BUFFERS, 1, true)]);
    assert!(matches!(process(&mut device, &mut queue, &driver), Err(DeviceError::Host(_))));
    assert!(driver.used().is_empty());
}

#[test]
fn host_random_bytes_differ_between_reads() {
    let [first, second] = [(); 2].map(|()| {
        let mut bytes = [0; 32];
        io::Read::read_exact(&mut HostRandom, &mut bytes).unwrap();
        bytes
    });
    assert_ne!(first, second);
}
