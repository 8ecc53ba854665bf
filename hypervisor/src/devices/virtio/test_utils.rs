//! A driver for tests, which makes valid and invalid descriptor chains available.
//!
//! It replaces `virtio_queue::mock::MockSplitQueue`, whose used ring overlaps the `used_event` of the
//! available ring, and whose indices cannot wrap around.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{DeviceError, Interrupt, MmioTransport, QueueProgress, VirtioDevice};
use crate::devices::bus::BusDevice;

/// Size of guest memory in bytes.
pub(crate) const MEMORY: u64 = 0x40_0000;

/// Start of the part of guest memory that holds only buffers.
pub(crate) const BUFFERS: u64 = 0x1_0000;

/// Addresses of the parts of the queue.
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;

/// Flags of a descriptor (virtio 1.2 §2.7.5).
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// A descriptor: address, length, flags, next.
pub(crate) type Descriptor = (u64, u32, u16, u16);

/// A name, and a function that prepares a malformed queue.
type Case = (&'static str, fn(&mut TestDriver));

/// Driver side of a queue.
#[derive(Debug)]
pub(crate) struct TestDriver {
    pub(crate) memory: GuestMemoryMmap,
    size: u16,
    next_descriptor: u16,
    /// Index of the available ring.
    available: u16,
    /// Index of the used ring up to which [`Self::used`] has returned elements.
    seen: u16,
}

impl TestDriver {
    /// Creates a queue of `size` descriptors.
    pub(crate) fn new(size: u16) -> Self {
        let size_of_memory = usize::try_from(MEMORY).unwrap();
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size_of_memory)]).unwrap();
        Self { memory, size, next_descriptor: 0, available: 0, seen: 0 }
    }

    /// Returns the device side of the queue.
    pub(crate) fn queue(&self) -> Queue {
        let mut queue = Queue::new(self.size).unwrap();
        queue.try_set_desc_table_address(GuestAddress(DESCRIPTORS)).unwrap();
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_ready(true);
        assert!(queue.is_valid(&self.memory));
        queue
    }

    /// Returns the addresses of the descriptor table, the available ring and the used ring.
    pub(crate) fn addresses() -> [u64; 3] {
        [DESCRIPTORS, AVAILABLE, USED]
    }

    /// Writes a descriptor to the table at address `table`.
    pub(crate) fn describe_at(&self, table: u64, index: u16, descriptor: Descriptor) {
        let (address, length, flags, next) = descriptor;
        let at = GuestAddress(table + 16 * u64::from(index));
        self.memory.write_obj(address, at).unwrap();
        self.memory.write_obj(length, GuestAddress(at.0 + 8)).unwrap();
        self.memory.write_obj(flags, GuestAddress(at.0 + 12)).unwrap();
        self.memory.write_obj(next, GuestAddress(at.0 + 14)).unwrap();
    }

    /// Writes a descriptor to the queue's table.
    pub(crate) fn describe(&self, index: u16, descriptor: Descriptor) {
        self.describe_at(DESCRIPTORS, index, descriptor);
    }

    /// Makes the chain with this head available.
    pub(crate) fn offer(&mut self, head: u16) {
        let index = u64::from(self.available % self.size);
        self.memory.write_obj(head, GuestAddress(AVAILABLE + 4 + 2 * index)).unwrap();
        self.set_available(self.available.wrapping_add(1));
    }

    /// Sets the index of the available ring.
    pub(crate) fn set_available(&mut self, index: u16) {
        self.available = index;
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 2)).unwrap();
    }

    /// Makes a chain of buffers available, each given as address, length, and whether it is device-writable.
    /// Returns the chain's head.
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

    /// Writes bytes to `address` and makes them available in a device-readable buffer.
    pub(crate) fn send_bytes(&mut self, address: u64, bytes: &[u8]) -> u16 {
        self.memory.write_slice(bytes, GuestAddress(address)).unwrap();
        self.send(&[(address, u32::try_from(bytes.len()).unwrap(), false)])
    }

    /// Returns the elements of the used ring since the last call, as head and length. Requests an interrupt
    /// for the next element.
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

    /// Returns the index of the used ring: the number of chains that the device has used, modulo 2^16.
    pub(crate) fn used_index(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    /// Writes the flags of the available ring, with which the driver suppresses interrupts (virtio 1.2
    /// §2.7.7).
    pub(crate) fn set_available_flags(&self, flags: u16) {
        self.memory.write_obj(flags, GuestAddress(AVAILABLE)).unwrap();
    }

    /// Writes `used_event`: the index of the used ring whose element causes an interrupt (virtio 1.2 §2.7.7).
    pub(crate) fn set_used_event(&self, index: u16) {
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 4 + 2 * u64::from(self.size))).unwrap();
    }

    /// Reads `avail_event`: the index of the available ring whose element needs a notification (virtio 1.2
    /// §2.7.10).
    pub(crate) fn avail_event(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED + 4 + 8 * u64::from(self.size))).unwrap()
    }

    /// Reads the flags of the used ring, with which the device suppresses notifications.
    pub(crate) fn used_flags(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED)).unwrap()
    }

    /// Reads guest memory.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    /// Returns malformed queues, each with the name of its defect.
    pub(crate) fn malformed_queues(size: u16) -> Vec<(&'static str, Self)> {
        let cases: [Case; 12] = [
            ("a chain that loops", |driver| driver.describe(0, (BUFFERS, 1, NEXT, 0))),
            ("a chain that leaves the table", |driver| driver.describe(0, (BUFFERS, 1, NEXT, driver.size))),
            ("a head outside the table", |driver| driver.offer(u16::MAX)),
            ("a buffer outside memory", |driver| driver.describe(0, (MEMORY, 1, 0, 0))),
            ("a buffer across the end of memory", |driver| driver.describe(0, (MEMORY - 1, 2, 0, 0))),
            ("a buffer across the end of the address space", |driver| {
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
            ("a readable buffer behind a writable one", |driver| {
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

/// Asserts that a device reports an error for every malformed queue, and uses none of its chains.
pub(crate) fn assert_rejects_malformed_queues<D: VirtioDevice>(index: usize, device: impl Fn() -> D) {
    for (name, mut driver) in TestDriver::malformed_queues(16) {
        let mut queue = driver.queue();
        let result = device().process(index, &mut queue, &driver.memory);
        assert!(result.is_err(), "{name}: {result:?}");
        assert!(driver.used().is_empty(), "{name}");
    }
}

/// Interrupt line that counts interrupts.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterruptCounter(Arc<AtomicUsize>);

impl InterruptCounter {
    /// Returns the number of interrupts.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Interrupt for InterruptCounter {
    fn raise(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A device with two queues that uses every chain without an effect, and logs the calls of its methods.
#[derive(Debug, Default)]
pub(crate) struct EchoDevice {
    pub(crate) log: Arc<std::sync::Mutex<Vec<String>>>,
}

impl EchoDevice {
    fn record(&self, call: &str) {
        self.log.lock().unwrap().push(call.to_owned());
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
        self.record(&format!("config {offset} {data:?}"));
    }

    fn activate(&mut self, features: u64) {
        self.record(&format!("activate {features:#x}"));
    }

    fn reset(&mut self) {
        self.record("reset");
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, DeviceError> {
        self.record(&format!("process {index}"));
        super::chain::serve_chains(queue, memory, |chain| {
            Ok(super::chain::Completion { written: 0, work: chain.length() })
        })
    }

    fn is_output(&self, index: usize) -> bool {
        index == 1
    }
}

/// Reads a register of a device.
pub(crate) fn read(transport: &MmioTransport, register: u64) -> u32 {
    let mut word = [0x55; 4];
    transport.read(register, &mut word);
    u32::from_le_bytes(word)
}

/// Writes a register of a device.
pub(crate) fn write(transport: &MmioTransport, register: u64, value: u32) {
    transport.write(register, &value.to_le_bytes());
}

/// Initialises a device (virtio 1.2 §3.1.1) up to `DRIVER_OK`. The last of `queues` is that of a
/// [`TestDriver`]; those before it are not set up.
pub(crate) fn start(transport: &MmioTransport, queues: u32) {
    let [status, select, ready] = [0x70, 0x30, 0x44];
    write(transport, status, 3);
    for page in [0, 1] {
        write(transport, 0x14, page);
        write(transport, 0x24, page);
        write(transport, 0x20, read(transport, 0x10));
    }
    write(transport, status, 0xb);
    write(transport, select, queues - 1);
    for (register, address) in [0x80, 0x90, 0xa0].into_iter().zip(TestDriver::addresses()) {
        write(transport, register, u32::try_from(address).unwrap());
    }
    write(transport, ready, 1);
    write(transport, status, 0xf);
    assert_eq!((read(transport, status), read(transport, ready)), (0xf, 1));
}
