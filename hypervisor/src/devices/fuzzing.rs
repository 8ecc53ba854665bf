//! Fuzz targets of the devices. Each target derives the behaviour of a guest from arbitrary bytes.
//!
//! A target creates a device with its registers and a small guest memory, and uses no threads, so the same
//! bytes always have the same effect. For most targets the bytes are the contents of guest memory: the
//! available ring, the descriptor table and the buffers. For [`registers`] they are a sequence of register
//! accesses and writes to memory. After each step the target asserts the invariants of the device's status.

mod egress;
mod files;
mod files_client;
mod net_backend;

use std::fs::File;
use std::{io, iter};

use virtio_bindings::virtio_config::VIRTIO_CONFIG_S_NEEDS_RESET;
use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_DEVICE_FEATURES, VIRTIO_MMIO_DEVICE_FEATURES_SEL, VIRTIO_MMIO_DRIVER_FEATURES,
    VIRTIO_MMIO_DRIVER_FEATURES_SEL, VIRTIO_MMIO_QUEUE_AVAIL_LOW, VIRTIO_MMIO_QUEUE_DESC_LOW,
    VIRTIO_MMIO_QUEUE_NUM, VIRTIO_MMIO_QUEUE_READY, VIRTIO_MMIO_QUEUE_SEL, VIRTIO_MMIO_QUEUE_USED_LOW,
    VIRTIO_MMIO_STATUS,
};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::tempfile::TempFile;

pub use self::egress::egress;
pub use self::files::files;
pub use self::files_client::FilesClient;
use self::net_backend::FuzzBackend;
use super::block::Block;
use super::console::{ConsoleDevice, ConsoleInput, Output};
use super::entropy::Entropy;
use super::net::backend::stream::FrameReader;
use super::net::{MAX_FRAME, MIN_FRAME, Net, NetConfig};
use super::virtio::mmio::MmioRegisters;
use super::virtio::{EventValidity, VirtioDevice};

/// Size of guest memory in bytes.
const MEMORY: u64 = 0x1_0000;

/// Address of the available ring. The fuzzer's bytes begin here. They fill the available ring, ...
const AVAILABLE: u32 = 0x10;

/// ... the descriptor table, and buffers.
const DESCRIPTORS: u32 = 0x40;

/// Address of the used ring.
const USED: u32 = 0x8000;

/// Number of descriptors of each queue.
const QUEUE_SIZE: u32 = 16;

// The parts of a queue do not overlap (virtio 1.2 §2.7).
const _: () = assert!(AVAILABLE + 6 + 2 * QUEUE_SIZE <= DESCRIPTORS && DESCRIPTORS + 16 * QUEUE_SIZE <= USED);

/// Size of the disk in bytes.
const DISK_SIZE: u64 = 0x4000;

/// Registers of a console: `data` is a sequence of register accesses, writes to guest memory, and calls that
/// process a queue.
///
/// # Panics
///
/// The device's state is invalid.
pub fn registers(data: &[u8]) {
    let Some((mut registers, memory)) = set_up(console_device()) else { return };
    let mut source = ByteSource(data);
    while step(&mut source, &mut registers, &memory).is_some() {
        check(&registers);
    }
}

/// A console after initialisation, with `data` in guest memory.
///
/// # Panics
///
/// The device's state is invalid.
pub fn console(data: &[u8]) {
    process_queues(console_device(), data);
}

/// An entropy device after initialisation, with `data` in guest memory.
///
/// # Panics
///
/// The device's state is invalid.
pub fn entropy(data: &[u8]) {
    process_queues(Box::new(Entropy::new(io::repeat(0x5a))), data);
}

/// A block device after initialisation, with `data` in guest memory.
///
/// # Panics
///
/// The device's state is invalid, or the size of the disk has changed.
pub fn block(data: &[u8]) {
    let Ok(file) = TempFile::new().map(TempFile::into_file) else { return };
    let (Ok(()), Ok(watched)) = (file.set_len(DISK_SIZE), file.try_clone()) else { return };
    let Ok(device) = Block::new(file, data.first() == Some(&0)) else { return };
    process_queues(Box::new(device), data);
    assert_eq!(watched.metadata().map(|file| file.len()).ok(), Some(DISK_SIZE));
}

/// A network device after initialisation, with `data` in guest memory. Received frames are derived from
/// `data`, too.
///
/// # Panics
///
/// The device's state is invalid, or the device sends an invalid frame.
pub fn network(data: &[u8]) {
    let settings = NetConfig { mac: [2; 6], mtu: 1500 };
    process_queues(Box::new(Net::new(Box::new(FuzzBackend::new(data)), settings)), data);
}

/// A stream of frames, `data`, in reads of different sizes.
///
/// # Panics
///
/// A returned frame is not in the stream.
pub fn frames(data: &[u8]) {
    let (mut stream, mut reader, mut found) = (ByteSource(data), FrameReader::default(), 0);
    let sizes = data.iter().rev().map(|&byte| usize::from(byte) + 1).chain(iter::repeat(1 << 16));
    let mut sizes = sizes.into_iter();
    let mut read = |buffer: &mut [u8]| {
        let bytes = stream.up_to(sizes.next().unwrap_or(1).min(buffer.len()));
        buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(bytes.len())
    };
    while let Ok(frame) = reader.next(&mut read) {
        found += 4;
        assert!((MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
        assert_eq!(data.get(found..found + frame.len()), Some(&*frame));
        found += frame.len();
    }
}

fn console_device() -> Box<dyn VirtioDevice> {
    let input = File::open("/dev/zero").ok().map(ConsoleInput::quoted);
    Box::new(ConsoleDevice::new(Output::new(Box::new(io::sink())), input))
}

/// Registers of a device, and guest memory. Host events of all queues are reported as always ready.
fn set_up(device: Box<dyn VirtioDevice>) -> Option<(MmioRegisters, GuestMemoryMmap)> {
    let memory =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), hermit_interface::to_usize(MEMORY))]).ok()?;
    let mut registers = MmioRegisters::new(device, memory.clone()).ok()?;
    (0..registers.queue_count()).for_each(|index| registers.host_ready(index, EventValidity::Always));
    Some((registers, memory))
}

/// Initialises a device with `data` in guest memory, and processes its queues. All queues use the same rings
/// in memory.
fn process_queues(device: Box<dyn VirtioDevice>, data: &[u8]) {
    let Some((mut registers, memory)) = set_up(device) else { return };
    let max = hermit_interface::to_usize(MEMORY - u64::from(AVAILABLE));
    let data = data.get(..max).unwrap_or(data);
    if memory.write_slice(data, GuestAddress(AVAILABLE.into())).is_err() {
        return;
    }
    start(&mut registers);
    assert!(registers.is_running(), "the initialisation conforms to the specification");
    // Serves each queue several times, because one call may yield before it has seen all chains.
    for index in (0..registers.queue_count()).cycle().take(8) {
        registers.serve(index);
        check(&registers);
    }
}

fn write(registers: &mut MmioRegisters, register: u32, value: u32) {
    registers.write(register.into(), &value.to_le_bytes());
}

fn read(registers: &MmioRegisters, register: u32) -> u32 {
    let mut word = [0; 4];
    registers.read(register.into(), &mut word);
    u32::from_le_bytes(word)
}

/// Initialises the device (virtio 1.2 §3.1.1) with all offered features.
fn start(registers: &mut MmioRegisters) {
    write(registers, VIRTIO_MMIO_STATUS, 1 | 2);
    for page in [0, 1] {
        write(registers, VIRTIO_MMIO_DEVICE_FEATURES_SEL, page);
        write(registers, VIRTIO_MMIO_DRIVER_FEATURES_SEL, page);
        let offered = read(registers, VIRTIO_MMIO_DEVICE_FEATURES);
        write(registers, VIRTIO_MMIO_DRIVER_FEATURES, offered);
    }
    write(registers, VIRTIO_MMIO_STATUS, 1 | 2 | 8);
    for queue in (0..).take(registers.queue_count()) {
        write(registers, VIRTIO_MMIO_QUEUE_SEL, queue);
        write(registers, VIRTIO_MMIO_QUEUE_NUM, QUEUE_SIZE);
        write(registers, VIRTIO_MMIO_QUEUE_DESC_LOW, DESCRIPTORS);
        write(registers, VIRTIO_MMIO_QUEUE_AVAIL_LOW, AVAILABLE);
        write(registers, VIRTIO_MMIO_QUEUE_USED_LOW, USED);
        write(registers, VIRTIO_MMIO_QUEUE_READY, 1);
    }
    write(registers, VIRTIO_MMIO_STATUS, 1 | 2 | 4 | 8);
}

/// Asserts the invariants of `Status`.
fn check(registers: &MmioRegisters) {
    let status = read(registers, VIRTIO_MMIO_STATUS);
    let order = [(2, 1), (8, 2), (4, 8)];
    assert!(
        order.iter().all(|(step, before)| status & step == 0 || status & before != 0),
        "status {status:#x} violates the order of its bits"
    );
    assert!(
        !(registers.is_running() && status & VIRTIO_CONFIG_S_NEEDS_RESET != 0),
        "a device that needs a reset is running"
    );
}

/// Arbitrary bytes, consumed from the front.
struct ByteSource<'a>(&'a [u8]);

impl ByteSource<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn up_to(&mut self, count: usize) -> &[u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }
}

/// Performs one action; `None` at the end of the bytes.
fn step(source: &mut ByteSource<'_>, registers: &mut MmioRegisters, memory: &GuestMemoryMmap) -> Option<()> {
    let [kind] = source.take()?;
    match kind % 8 {
        0 => start(registers),
        1 => {
            let [low, high, width] = source.take()?;
            let mut data = [0; 16];
            let data = data.get_mut(..usize::from(width % 16))?;
            registers.read(u16::from_le_bytes([low, high % 2]).into(), data);
        }
        2 => {
            let [low, high, width] = source.take()?;
            let data = source.take::<8>()?;
            let data = data.get(..usize::from(width % 9))?;
            registers.write(u16::from_le_bytes([low, high % 2]).into(), data);
        }
        // Writes small values to existing registers, because such writes are more likely to be valid.
        3 | 4 => {
            let [register, low, high] = source.take()?;
            write(registers, u32::from(register & 0x3f) * 4, u16::from_le_bytes([low, high]).into());
        }
        5 => {
            let [low, high, byte] = source.take()?;
            let address = GuestAddress(u16::from_le_bytes([low, high]).into());
            memory.write_slice(&[byte], address).ok()?;
        }
        _ => {
            let [queue] = source.take()?;
            registers.serve((queue % 4).into());
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{AVAILABLE, DESCRIPTORS, MEMORY};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Generates guest memory whose ring indices are mostly valid, so that the device processes chains.
    fn guest() -> impl Strategy<Value = Vec<u8>> {
        let descriptor = (0u64..MEMORY, 0u32..0x2000, 0u16..8, 0u16..17);
        let arbitrary = (any::<u64>(), any::<u32>(), any::<u16>(), any::<u16>());
        let descriptors = vec(prop_oneof![8 => descriptor, 1 => arbitrary], 16);
        (0u16..20, vec(0u16..17, 16), descriptors, vec(0u8..12, 0..2048)).prop_map(
            |(index, heads, descriptors, rest)| {
                let mut bytes = [[0; 2], index.to_le_bytes()].concat();
                bytes.extend(heads.iter().flat_map(|head| head.to_le_bytes()));
                bytes.resize(usize::try_from(DESCRIPTORS - AVAILABLE).unwrap(), 0);
                for (address, length, flags, next) in descriptors {
                    bytes.extend(address.to_le_bytes());
                    bytes.extend(length.to_le_bytes());
                    bytes.extend(flags.to_le_bytes());
                    bytes.extend(next.to_le_bytes());
                }
                bytes.extend(rest);
                bytes
            },
        )
    }

    proptest! {
        #[test]
        fn registers_withstand_arbitrary_actions(bytes in vec(any::<u8>(), 0..4096)) {
            super::registers(&bytes);
        }

        #[test]
        fn console_withstands_arbitrary_queues(guest in guest()) {
            super::console(&guest);
        }

        #[test]
        fn entropy_device_withstands_arbitrary_queues(guest in guest()) {
            super::entropy(&guest);
        }

        #[test]
        fn block_device_withstands_arbitrary_queues(guest in guest()) {
            super::block(&guest);
        }

        #[test]
        fn file_system_withstands_arbitrary_requests(
            requests in vec((0u8..52, 0u8..8, vec(0u8..9, 0..120)), 0..40),
        ) {
            let encode = |(opcode, node, body): (u8, u8, Vec<u8>)| {
                [vec![opcode, node, u8::try_from(body.len()).unwrap()], body].concat()
            };
            super::files(&requests.into_iter().flat_map(encode).collect::<Vec<_>>());
        }

        #[test]
        fn network_device_withstands_arbitrary_queues(guest in guest()) {
            super::network(&guest);
        }

        #[test]
        fn frame_reader_withstands_arbitrary_streams(
            lengths in vec(prop_oneof![8 => 14u32..600, 1 => 0u32..70_000], 0..8),
            rest in vec(any::<u8>(), 0..300),
        ) {
            let frame = |length: u32| [&length.to_be_bytes()[..], &vec![3; usize::try_from(length).unwrap()]].concat();
            super::frames(&[lengths.into_iter().flat_map(frame).collect(), rest].concat());
        }

        #[test]
        fn devices_withstand_arbitrary_bytes(bytes in vec(any::<u8>(), 0..1024)) {
            super::console(&bytes);
            super::entropy(&bytes);
            super::block(&bytes);
            super::files(&bytes);
            super::network(&bytes);
            super::frames(&bytes);
        }
    }
}
