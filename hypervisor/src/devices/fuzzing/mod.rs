//! Entries for fuzzers: each makes a guest of arbitrary bytes. Deterministic, without threads.

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

use self::net_backend::FuzzBackend;
use super::block::Block;
use super::console::{Console, Input, Output};
use super::entropy::Entropy;
use super::net::backend::stream::FrameReader;
use super::net::{MAX_FRAME, MIN_FRAME, Net, NetConfig};
use super::virtio::mmio::MmioRegisters;
use super::virtio::{Readiness, VirtioDevice};

/// Size of guest memory in bytes.
const MEMORY: u64 = 0x1_0000;

/// Where the bytes of a guest are put that come with a queue that is set up: first the available ring ...
const AVAILABLE: u32 = 0x10;

/// ... then the descriptors, then buffers.
const DESCRIPTORS: u32 = 0x40;

/// The used ring is out of the way.
const USED: u32 = 0x8000;

/// How many descriptors the queues have.
const SIZE: u32 = 16;

// The parts of a queue do not overlap (virtio 1.2, section 2.7).
const _: () = assert!(AVAILABLE + 6 + 2 * SIZE <= DESCRIPTORS && DESCRIPTORS + 16 * SIZE <= USED);

/// Size of the disk in bytes.
const DISK: u64 = 0x4000;

/// MmioRegisters: `data` is a list of accesses, of changes of guest memory, and of turns of the device.
///
/// # Panics
///
/// The machine is in a state that must not be.
pub fn registers(data: &[u8]) {
    let Some((mut machine, memory)) = machine(console_device()) else { return };
    let mut script = Script(data);
    while step(&mut script, &mut machine, &memory).is_some() {
        check(&machine);
    }
}

/// A console whose queues are set up, with `data` as guest memory.
///
/// # Panics
///
/// The machine is in a state that must not be.
pub fn console(data: &[u8]) {
    walk(console_device(), data);
}

/// An entropy device whose queue is set up, with `data` as guest memory.
///
/// # Panics
///
/// The machine is in a state that must not be.
pub fn entropy(data: &[u8]) {
    walk(Box::new(Entropy::new(io::repeat(0x5a))), data);
}

/// A disk whose queue is set up, with `data` as guest memory.
///
/// # Panics
///
/// The machine is in a state that must not be, or the disk has changed its size.
pub fn block(data: &[u8]) {
    let Ok(file) = TempFile::new().map(TempFile::into_file) else { return };
    let (Ok(()), Ok(watched)) = (file.set_len(DISK), file.try_clone()) else { return };
    let Ok(device) = Block::new(file, data.first() == Some(&0)) else { return };
    walk(Box::new(device), data);
    assert_eq!(watched.metadata().map(|file| file.len()).ok(), Some(DISK));
}

/// A network device whose queues are set up, with `data` as guest memory. The frames that arrive are made of it, too.
///
/// # Panics
///
/// The machine is in a state that must not be, or a frame that makes no sense goes out.
pub fn network(data: &[u8]) {
    let settings = NetConfig { mac: [2; 6], mtu: 1500 };
    walk(Box::new(Net::new(Box::new(FuzzBackend::new(data)), settings)), data);
}

/// A stream of frames, `data`, that arrives in pieces of different sizes.
///
/// # Panics
///
/// A frame is found where there is none.
pub fn frames(data: &[u8]) {
    let (mut stream, mut incoming, mut found) = (Script(data), FrameReader::default(), 0);
    let sizes = data.iter().rev().map(|&byte| usize::from(byte) + 1).chain(iter::repeat(1 << 16));
    let mut sizes = sizes.into_iter();
    let mut read = |buffer: &mut [u8]| {
        let piece = stream.up_to(sizes.next().unwrap_or(1).min(buffer.len()));
        buffer.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
        Ok(piece.len())
    };
    while let Ok(frame) = incoming.next(&mut read) {
        found += 4;
        assert!((MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
        assert_eq!(data.get(found..found + frame.len()), Some(frame));
        found += frame.len();
    }
}

fn console_device() -> Box<dyn VirtioDevice> {
    let input = File::open("/dev/zero").ok().map(Input::quoted);
    Box::new(Console::new(Output::new(Box::new(io::sink())), input))
}

fn machine(device: Box<dyn VirtioDevice>) -> Option<(MmioRegisters, GuestMemoryMmap)> {
    let memory =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), hermit_interface::to_usize(MEMORY))]).ok()?;
    let mut machine = MmioRegisters::new(device, memory.clone()).ok()?;
    (0..machine.queue_count()).for_each(|index| machine.host_ready(index, Readiness::Always));
    Some((machine, memory))
}

/// Lets a device serve all its queues, which share one ring.
fn walk(device: Box<dyn VirtioDevice>, data: &[u8]) {
    let Some((mut machine, memory)) = machine(device) else { return };
    let most = hermit_interface::to_usize(MEMORY - u64::from(AVAILABLE));
    let data = data.get(..most).unwrap_or(data);
    if memory.write_slice(data, GuestAddress(AVAILABLE.into())).is_err() {
        return;
    }
    start(&mut machine);
    assert!(machine.is_running(), "the driver keeps to the rules so far");
    // A ring's worth, once more for what is added meanwhile, and some.
    for index in (0..machine.queue_count()).cycle().take(8) {
        machine.serve(index);
        check(&machine);
    }
}

fn write(machine: &mut MmioRegisters, register: u32, value: u32) {
    machine.write(register.into(), &value.to_le_bytes());
}

fn read(machine: &MmioRegisters, register: u32) -> u32 {
    let mut word = [0; 4];
    machine.read(register.into(), &mut word);
    u32::from_le_bytes(word)
}

/// What a driver does (virtio 1.2, section 3.1.1), with all that is offered.
fn start(machine: &mut MmioRegisters) {
    write(machine, VIRTIO_MMIO_STATUS, 1 | 2);
    for page in [0, 1] {
        write(machine, VIRTIO_MMIO_DEVICE_FEATURES_SEL, page);
        write(machine, VIRTIO_MMIO_DRIVER_FEATURES_SEL, page);
        let offered = read(machine, VIRTIO_MMIO_DEVICE_FEATURES);
        write(machine, VIRTIO_MMIO_DRIVER_FEATURES, offered);
    }
    write(machine, VIRTIO_MMIO_STATUS, 1 | 2 | 8);
    for queue in (0..).take(machine.queue_count()) {
        write(machine, VIRTIO_MMIO_QUEUE_SEL, queue);
        write(machine, VIRTIO_MMIO_QUEUE_NUM, SIZE);
        write(machine, VIRTIO_MMIO_QUEUE_DESC_LOW, DESCRIPTORS);
        write(machine, VIRTIO_MMIO_QUEUE_AVAIL_LOW, AVAILABLE);
        write(machine, VIRTIO_MMIO_QUEUE_USED_LOW, USED);
        write(machine, VIRTIO_MMIO_QUEUE_READY, 1);
    }
    write(machine, VIRTIO_MMIO_STATUS, 1 | 2 | 4 | 8);
}

/// What must always be true.
fn check(machine: &MmioRegisters) {
    let status = read(machine, VIRTIO_MMIO_STATUS);
    let order = [(2, 1), (8, 2), (4, 8)];
    assert!(
        order.iter().all(|(step, before)| status & step == 0 || status & before != 0),
        "status {status:#x} skips a step"
    );
    assert!(
        !(machine.is_running() && status & VIRTIO_CONFIG_S_NEEDS_RESET != 0),
        "a broken device goes on running"
    );
}

/// Arbitrary bytes, consumed from the front.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
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

/// Does one thing; nothing if the script is at its end.
fn step(script: &mut Script<'_>, machine: &mut MmioRegisters, memory: &GuestMemoryMmap) -> Option<()> {
    let [kind] = script.take()?;
    match kind % 8 {
        0 => start(machine),
        1 => {
            let [low, high, width] = script.take()?;
            let mut data = [0; 16];
            let data = data.get_mut(..usize::from(width % 16))?;
            machine.read(u16::from_le_bytes([low, high % 2]).into(), data);
        }
        2 => {
            let [low, high, width] = script.take()?;
            let data = script.take::<8>()?;
            let data = data.get(..usize::from(width % 9))?;
            machine.write(u16::from_le_bytes([low, high % 2]).into(), data);
        }
        // The registers that there are, with small values, so that something happens.
        3 | 4 => {
            let [register, low, high] = script.take()?;
            write(machine, u32::from(register & 0x3f) * 4, u16::from_le_bytes([low, high]).into());
        }
        5 => {
            let [low, high, byte] = script.take()?;
            let address = GuestAddress(u16::from_le_bytes([low, high]).into());
            memory.write_slice(&[byte], address).ok()?;
        }
        _ => {
            let [queue] = script.take()?;
            machine.serve((queue % 4).into());
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{AVAILABLE, DESCRIPTORS, MEMORY};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A guest whose rings have plausible indices, so that chains are followed.
    fn guest() -> impl Strategy<Value = Vec<u8>> {
        let descriptor = (0u64..MEMORY, 0u32..0x2000, 0u16..8, 0u16..17);
        let odd = (any::<u64>(), any::<u32>(), any::<u16>(), any::<u16>());
        let descriptors = vec(prop_oneof![8 => descriptor, 1 => odd], 16);
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
        fn no_script_breaks_the_registers(script in vec(any::<u8>(), 0..4096)) {
            super::registers(&script);
        }

        #[test]
        fn no_guest_breaks_the_console(guest in guest()) {
            super::console(&guest);
        }

        #[test]
        fn no_guest_breaks_the_entropy_device(guest in guest()) {
            super::entropy(&guest);
        }

        #[test]
        fn no_guest_breaks_the_disk(guest in guest()) {
            super::block(&guest);
        }

        #[test]
        fn no_guest_breaks_the_network(guest in guest()) {
            super::network(&guest);
        }

        #[test]
        fn no_stream_breaks_the_network(
            lengths in vec(prop_oneof![8 => 14u32..600, 1 => 0u32..70_000], 0..8),
            rest in vec(any::<u8>(), 0..300),
        ) {
            let frame = |length: u32| [&length.to_be_bytes()[..], &vec![3; usize::try_from(length).unwrap()]].concat();
            super::frames(&[lengths.into_iter().flat_map(frame).collect(), rest].concat());
        }

        #[test]
        fn no_bytes_break_a_device(bytes in vec(any::<u8>(), 0..1024)) {
            super::console(&bytes);
            super::entropy(&bytes);
            super::block(&bytes);
            super::network(&bytes);
            super::frames(&bytes);
        }
    }
}
