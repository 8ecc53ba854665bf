//! A driver for tests: puts chains into the rings of a queue, good ones and bad ones.
//!
//! Not `virtio_queue::mock::MockSplitQueue`: that lets the used ring begin in the middle of the available ring, where
//! the event index lies, and cannot wrap around.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{DeviceError, Interrupt, MmioTransport, Progress, VirtioDevice};
use crate::devices::bus::BusDevice;

/// Size of guest memory in bytes.
pub(crate) const MEMORY: u64 = 0x40_0000;

/// From here on there is nothing but buffers.
pub(crate) const BUFFERS: u64 = 0x1_0000;

const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;

/// The flags of a descriptor (virtio 1.2, section 2.7.5).
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// Address, length, flags, next.
pub(crate) type Descriptor = (u64, u32, u16, u16);

/// A name, and what a driver does to break the rules.
type Case = (&'static str, fn(&mut TestDriver));

/// A queue as its driver sees it.
#[derive(Debug)]
pub(crate) struct TestDriver {
    pub(crate) memory: GuestMemoryMmap,
    size: u16,
    next_descriptor: u16,
    available: u16,
    seen: u16,
}

impl TestDriver {
    /// A queue of this many descriptors.
    pub(crate) fn new(size: u16) -> Self {
        let size_of_memory = usize::try_from(MEMORY).unwrap();
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size_of_memory)]).unwrap();
        Self { memory, size, next_descriptor: 0, available: 0, seen: 0 }
    }

    /// The device's side of the queue.
    pub(crate) fn queue(&self) -> Queue {
        let mut queue = Queue::new(self.size).unwrap();
        queue.try_set_desc_table_address(GuestAddress(DESCRIPTORS)).unwrap();
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_ready(true);
        assert!(queue.is_valid(&self.memory));
        queue
    }

    /// Where the descriptors, the available and the used ring are.
    pub(crate) fn addresses() -> [u64; 3] {
        [DESCRIPTORS, AVAILABLE, USED]
    }

    /// Writes a descriptor into the table at `table`.
    pub(crate) fn describe_at(&self, table: u64, index: u16, descriptor: Descriptor) {
        let (address, length, flags, next) = descriptor;
        let at = GuestAddress(table + 16 * u64::from(index));
        self.memory.write_obj(address, at).unwrap();
        self.memory.write_obj(length, GuestAddress(at.0 + 8)).unwrap();
        self.memory.write_obj(flags, GuestAddress(at.0 + 12)).unwrap();
        self.memory.write_obj(next, GuestAddress(at.0 + 14)).unwrap();
    }

    /// Writes a descriptor.
    pub(crate) fn describe(&self, index: u16, descriptor: Descriptor) {
        self.describe_at(DESCRIPTORS, index, descriptor);
    }

    /// Makes a chain available.
    pub(crate) fn offer(&mut self, head: u16) {
        let slot = u64::from(self.available % self.size);
        self.memory.write_obj(head, GuestAddress(AVAILABLE + 4 + 2 * slot)).unwrap();
        self.set_available(self.available.wrapping_add(1));
    }

    /// Sets the index of the available ring.
    pub(crate) fn set_available(&mut self, index: u16) {
        self.available = index;
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 2)).unwrap();
    }

    /// Makes a chain of these buffers available: address, length, whether the device writes.
    pub(crate) fn send(&mut self, buffers: &[(u64, u32, bool)]) -> u16 {
        let head = self.next_descriptor;
        for (number, &(address, length, writes)) in buffers.iter().enumerate() {
            let next = (self.next_descriptor + 1) % self.size;
            let has_next = number + 1 < buffers.len();
            let flags = if has_next { NEXT } else { 0 } | if writes { WRITE } else { 0 };
            self.describe(self.next_descriptor, (address, length, flags, next));
            self.next_descriptor = next;
        }
        self.offer(head);
        head
    }

    /// Stores bytes and makes them available for reading.
    pub(crate) fn send_bytes(&mut self, address: u64, bytes: &[u8]) -> u16 {
        self.memory.write_slice(bytes, GuestAddress(address)).unwrap();
        self.send(&[(address, u32::try_from(bytes.len()).unwrap(), false)])
    }

    /// What the device has given back since the last call: head and length. The next one causes an interrupt.
    pub(crate) fn used(&mut self) -> Vec<(u32, u32)> {
        let mut used = Vec::new();
        while self.seen != self.memory.load::<u16>(GuestAddress(USED + 2), Ordering::SeqCst).unwrap() {
            let at = USED + 4 + 8 * u64::from(self.seen % self.size);
            let [head, length] = [at, at + 4].map(|at| self.memory.read_obj(GuestAddress(at)).unwrap());
            used.push((head, length));
            self.seen = self.seen.wrapping_add(1);
            self.set_used_event(self.seen);
            fence(Ordering::SeqCst);
        }
        used
    }

    /// How many chains the device has given back in all.
    pub(crate) fn used_index(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    /// The flags of the available ring: whether interrupts are not wanted (section 2.7.7).
    pub(crate) fn set_available_flags(&self, flags: u16) {
        self.memory.write_obj(flags, GuestAddress(AVAILABLE)).unwrap();
    }

    /// From which index on interrupts are wanted (section 2.7.7).
    pub(crate) fn set_used_event(&self, index: u16) {
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 4 + 2 * u64::from(self.size))).unwrap();
    }

    /// From which index on notifications are wanted (section 2.7.10).
    pub(crate) fn avail_event(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED + 4 + 8 * u64::from(self.size))).unwrap()
    }

    /// The flags of the used ring: whether notifications are wanted at all.
    pub(crate) fn used_flags(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED)).unwrap()
    }

    /// Bytes of guest memory.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    /// Chains that break the rules, one at a time, each in a new queue, with what the device must say of it.
    pub(crate) fn hostile(size: u16) -> Vec<(&'static str, Self)> {
        let cases: [Case; 12] = [
            ("a chain that loops", |driver| driver.describe(0, (BUFFERS, 1, NEXT, 0))),
            ("a chain that leaves the table", |driver| driver.describe(0, (BUFFERS, 1, NEXT, driver.size))),
            ("a head that is not in the table", |driver| driver.offer(u16::MAX)),
            ("a buffer outside memory", |driver| driver.describe(0, (MEMORY, 1, 0, 0))),
            ("a buffer across the end of memory", |driver| driver.describe(0, (MEMORY - 1, 2, 0, 0))),
            ("a buffer across the end of all addresses", |driver| {
                driver.describe(0, (u64::MAX - 1, u32::MAX, WRITE, 0));
            }),
            ("an indirect table of 2^32 bytes", |driver| {
                driver.describe(0, (BUFFERS, !15, INDIRECT, 0));
            }),
            ("an indirect table of an odd size", |driver| driver.describe(0, (BUFFERS, 17, INDIRECT, 0))),
            ("an indirect table outside memory", |driver| driver.describe(0, (MEMORY, 16, INDIRECT, 0))),
            ("an indirect table in an indirect table", |driver| {
                driver.describe_at(BUFFERS, 0, (BUFFERS, 16, INDIRECT, 0));
                driver.describe(0, (BUFFERS, 16, INDIRECT, 0));
            }),
            ("an indirect table that loops, 65535 long", |driver| {
                driver.describe_at(BUFFERS, 0, (BUFFERS, 1, NEXT, 0));
                driver.describe(0, (BUFFERS, 0xf_fff0, INDIRECT, 0));
            }),
            ("something to read behind something to write", |driver| {
                driver.describe(0, (BUFFERS, 1, NEXT | WRITE, 1));
                driver.describe(1, (BUFFERS, 1, 0, 0));
            }),
        ];
        let build = |(name, prepare): Case| {
            let mut driver = Self::new(size);
            prepare(&mut driver);
            if driver.available == 0 {
                driver.offer(0);
            }
            (name, driver)
        };
        let mut all: Vec<_> = cases.into_iter().map(build).collect();
        for jump in [size + 1, u16::MAX] {
            let mut driver = Self::new(size);
            driver.set_available(jump);
            all.push(("an available index that jumps", driver));
        }
        all
    }
}

/// Checks that a device refuses everything that breaks the rules of queues, and gives nothing back.
pub(crate) fn assert_refuses_hostile_chains<D: VirtioDevice>(index: usize, device: impl Fn() -> D) {
    for (name, mut driver) in TestDriver::hostile(16) {
        let mut queue = driver.queue();
        let result = device().process(index, &mut queue, &driver.memory);
        assert!(result.is_err(), "{name}: {result:?}");
        assert!(driver.used().is_empty(), "{name}");
    }
}

/// Counts what is raised.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterruptCounter(Arc<AtomicUsize>);

impl InterruptCounter {
    /// How many interrupts there were.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Interrupt for InterruptCounter {
    fn raise(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A device with two queues that gives back every chain as it is, and says what happened to it.
#[derive(Debug, Default)]
pub(crate) struct EchoDevice {
    pub(crate) log: Arc<std::sync::Mutex<Vec<String>>>,
}

impl EchoDevice {
    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(what.to_owned());
    }
}

impl VirtioDevice for EchoDevice {
    fn device_type(&self) -> u32 {
        42
    }

    fn features(&self) -> u64 {
        1 << 3 | 1 << 40
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[16, 8]
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        super::read_window(b"configuration", offset, data);
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) {
        self.note(&format!("config {offset} {data:?}"));
    }

    fn activate(&mut self, features: u64) {
        self.note(&format!("activate {features:#x}"));
    }

    fn reset(&mut self) {
        self.note("reset");
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Progress, DeviceError> {
        self.note(&format!("process {index}"));
        super::chain::serve_chains(queue, memory, |chain| {
            Ok(super::chain::Completion { written: 0, work: chain.length() })
        })
    }

    fn is_output(&self, index: usize) -> bool {
        index == 1
    }
}

/// Reads a register.
pub(crate) fn read(slot: &MmioTransport, register: u64) -> u32 {
    let mut word = [0x55; 4];
    slot.read(register, &mut word);
    u32::from_le_bytes(word)
}

/// Writes a register.
pub(crate) fn write(slot: &MmioTransport, register: u64, value: u32) {
    slot.write(register, &value.to_le_bytes());
}

/// Does what a driver does (virtio 1.2, section 3.1.1), up to DRIVER_OK. The last queue is where [`TestDriver`] has it;
/// those before it stay unused.
pub(crate) fn start(slot: &MmioTransport, queues: u32) {
    let [status, select, ready] = [0x70, 0x30, 0x44];
    write(slot, status, 3);
    for page in [0, 1] {
        write(slot, 0x14, page);
        write(slot, 0x24, page);
        write(slot, 0x20, read(slot, 0x10));
    }
    write(slot, status, 0xb);
    write(slot, select, queues - 1);
    for (register, address) in [0x80, 0x90, 0xa0].into_iter().zip(TestDriver::addresses()) {
        write(slot, register, u32::try_from(address).unwrap());
    }
    write(slot, ready, 1);
    write(slot, status, 0xf);
    assert_eq!((read(slot, status), read(slot, ready)), (0xf, 1));
}
