//! A device model: status, features, configuration, and virtqueues that tests process one chain at a time.
//!
//! The model is the device's side of the specification, in ordinary memory. A transport for tests passes the
//! driver's register accesses to it, and the test then acts as the device: it takes a chain
//! ([`DeviceModel::take`]), reads and writes its segments, and marks it as used. The model checks the driver
//! meanwhile, for example that rings are aligned and that readable segments come first. To play a hostile
//! device, a test writes arbitrary elements and indices to the used ring. The model logs status changes,
//! notifications and freed memory in their order, so that tests can check that no memory is freed before the
//! reset.

use std::sync::{Arc, Mutex};
use std::vec::Vec;

use virtio_spec::{DeviceStatus, F};

use super::dma::{DeviceEvent, GuestMemory};
use crate::transport::{QueueAddresses, TransportError};

/// A device model that a transport and a test share.
pub(crate) type SharedDevice = Arc<Mutex<DeviceModel>>;

/// Device-side state of a virtqueue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelQueue {
    /// Maximum size, in descriptors.
    pub(crate) max_size: u16,
    pub(crate) addresses: Option<QueueAddresses>,
    /// Number of chains taken from the available ring, modulo 65536.
    taken: u16,
    /// Index of the used ring.
    pub(crate) used: u16,
    /// Number of notifications received, and of interrupts raised.
    pub(crate) notified: usize,
    pub(crate) interrupts: usize,
}

/// A chain that the device has taken from the available ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenChain {
    pub(crate) head: u16,
    /// Address, length and writability of each segment.
    pub(crate) parts: Vec<(u64, u32, bool)>,
}

#[derive(Debug)]
pub(crate) struct DeviceModel {
    pub(crate) memory: GuestMemory,
    pub(crate) id: u16,
    pub(crate) offered: u64,
    pub(crate) accepted: u64,
    pub(crate) status: u8,
    /// Status bits that read as 0 whatever the driver writes, and bits that read as 1.
    pub(crate) stuck_clear: u8,
    pub(crate) stuck_set: u8,
    pub(crate) queues: Vec<ModelQueue>,
    pub(crate) config: Vec<u8>,
    pub(crate) generation: u8,
    /// Number of further reads of the configuration that change it. Each such read changes all bytes.
    pub(crate) changes: u32,
    pub(crate) interrupt_status: u8,
}

impl DeviceModel {
    /// Creates a device with virtqueues of these maximum sizes. It offers `features`, `VIRTIO_F_VERSION_1`
    /// and `VIRTIO_F_EVENT_IDX`.
    pub(crate) fn new(id: u16, features: u64, queues: &[u16]) -> SharedDevice {
        let queues = queues
            .iter()
            .map(|max_size| ModelQueue { max_size: *max_size, ..ModelQueue::default() })
            .collect();
        let offered = features | u64::try_from((F::VERSION_1 | F::EVENT_IDX).bits().to_ne()).unwrap();
        Arc::new(Mutex::new(Self {
            memory: GuestMemory::default(),
            id,
            offered,
            accepted: 0,
            status: 0,
            stuck_clear: 0,
            stuck_set: 0,
            queues,
            config: Vec::new(),
            generation: 0,
            changes: 0,
            interrupt_status: 0,
        }))
    }

    fn has_event_index(&self) -> bool {
        u128::from(self.accepted) & F::EVENT_IDX.bits().to_ne() != 0
    }

    pub(crate) fn set_status(&mut self, status: u8) {
        self.memory.log(DeviceEvent::Status(status));
        self.status = status & !self.stuck_clear | self.stuck_set;
        if status == 0 {
            self.accepted = 0;
            self.interrupt_status = 0;
            for queue in &mut self.queues {
                *queue = ModelQueue { max_size: queue.max_size, ..ModelQueue::default() };
            }
        }
    }

    pub(crate) fn max_queue_size(&self, queue: u16) -> u16 {
        self.queues.get(usize::from(queue)).map_or(0, |queue| queue.max_size)
    }

    pub(crate) fn enable_queue(
        &mut self,
        queue: u16,
        addresses: QueueAddresses,
    ) -> Result<(), TransportError> {
        let queue = self.queues.get_mut(usize::from(queue)).ok_or(TransportError::NoQueue)?;
        assert!(
            queue.addresses.is_none() && addresses.size <= queue.max_size && addresses.size.is_power_of_two()
        );
        assert_eq!((addresses.descriptors % 16, addresses.driver % 2, addresses.device % 4), (0, 0, 0));
        queue.addresses = Some(addresses);
        Ok(())
    }

    pub(crate) fn notify(&mut self, queue: u16) {
        assert!(self.status & DeviceStatus::DRIVER_OK.bits() != 0, "notified too early");
        self.memory.log(DeviceEvent::Notified(queue));
        self.queues[usize::from(queue)].notified += 1;
    }

    fn addresses(&self, queue: u16) -> QueueAddresses {
        self.queues[usize::from(queue)].addresses.unwrap()
    }

    /// Takes the next available chain. If there is none, sets `avail_event` so that the driver notifies the
    /// device of the next chain.
    pub(crate) fn take(&mut self, queue: u16) -> Option<TakenChain> {
        let addresses = self.addresses(queue);
        let state = &mut self.queues[usize::from(queue)];
        if self.memory.read_u16(addresses.driver + 2) == state.taken {
            let event = addresses.device + 4 + 8 * u64::from(addresses.size);
            self.memory.write_u16(event, state.taken);
            // The driver may have made a chain available before it saw the event.
            if self.memory.read_u16(addresses.driver + 2) == state.taken {
                return None;
            }
        }
        let slot = u64::from(state.taken % addresses.size);
        let head = self.memory.read_u16(addresses.driver + 4 + 2 * slot);
        state.taken = state.taken.wrapping_add(1);
        Some(TakenChain { head, parts: self.parts(addresses, head) })
    }

    /// Segments of a chain. Panics if the chain has no end, or if a readable segment follows a writable one.
    fn parts(&self, addresses: QueueAddresses, head: u16) -> Vec<(u64, u32, bool)> {
        let mut parts: Vec<(u64, u32, bool)> = Vec::new();
        let mut next = Some(head);
        while let Some(index) = next {
            assert!(index < addresses.size && parts.len() < usize::from(addresses.size));
            let bytes = self.memory.read(addresses.descriptors + 16 * u64::from(index), 16);
            let flags = u16::from_le_bytes(bytes[12..14].try_into().unwrap());
            let part = (
                u64::from_le_bytes(bytes[..8].try_into().unwrap()),
                u32::from_le_bytes(bytes[8..12].try_into().unwrap()),
                flags & 2 != 0,
            );
            assert!(part.2 || parts.iter().all(|part| !part.2), "readable after writable");
            parts.push(part);
            next = (flags & 1 != 0).then(|| u16::from_le_bytes(bytes[14..].try_into().unwrap()));
        }
        parts
    }

    /// Contents of the readable segments.
    pub(crate) fn gather(&self, chain: &TakenChain) -> Vec<u8> {
        let parts = chain.parts.iter().filter(|part| !part.2);
        parts
            .map(|part| self.memory.read(part.0, usize::try_from(part.1).unwrap()))
            .collect::<Vec<_>>()
            .concat()
    }

    /// Writes to the writable segments; returns the number of bytes that fit.
    pub(crate) fn scatter(&self, chain: &TakenChain, bytes: &[u8]) -> u32 {
        let mut rest = bytes;
        for part in chain.parts.iter().filter(|part| part.2) {
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(part.1).unwrap()));
            self.memory.write(part.0, now);
            rest = later;
        }
        u32::try_from(bytes.len() - rest.len()).unwrap()
    }

    /// Writes an arbitrary element to the used ring, `ahead` elements after the next one.
    pub(crate) fn set_used_element(&self, queue: u16, ahead: u16, id: u32, length: u32) {
        let addresses = self.addresses(queue);
        let index = self.queues[usize::from(queue)].used.wrapping_add(ahead);
        let offset = addresses.device + 4 + 8 * u64::from(index % addresses.size);
        self.memory.write(offset, &id.to_le_bytes());
        self.memory.write(offset + 4, &length.to_le_bytes());
    }

    /// Writes an arbitrary index to the used ring.
    pub(crate) fn set_used_index(&self, queue: u16, index: u16) {
        self.memory.write_u16(self.addresses(queue).device + 2, index);
    }

    /// Marks a chain as used, and raises an interrupt if the driver wants one.
    pub(crate) fn use_chain(&mut self, queue: u16, head: u16, written: u32) {
        self.set_used_element(queue, 0, head.into(), written);
        let addresses = self.addresses(queue);
        let before = self.queues[usize::from(queue)].used;
        let after = before.wrapping_add(1);
        self.queues[usize::from(queue)].used = after;
        self.set_used_index(queue, after);
        let wanted = if self.has_event_index() {
            // The index advances by one, so it passes `used_event` exactly if the old index equals
            // `used_event`.
            self.memory.read_u16(addresses.driver + 4 + 2 * u64::from(addresses.size)) == before
        } else {
            self.memory.read_u16(addresses.driver) & 1 == 0
        };
        if wanted {
            self.queues[usize::from(queue)].interrupts += 1;
            self.interrupt_status |= 1;
        }
    }

    /// Takes a chain, writes `bytes` to it and marks it as used. Returns false if no chain is available.
    pub(crate) fn answer(&mut self, queue: u16, bytes: &[u8]) -> bool {
        let Some(chain) = self.take(queue) else { return false };
        let written = self.scatter(&chain, bytes);
        self.use_chain(queue, chain.head, written);
        true
    }

    /// Takes all chains and marks them as used. Returns the contents of their readable segments.
    pub(crate) fn drain(&mut self, queue: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(chain) = self.take(queue) {
            bytes.extend(self.gather(&chain));
            self.use_chain(queue, chain.head, 0);
        }
        bytes
    }

    /// Reads the configuration. Changes it afterwards if the test requested changes.
    pub(crate) fn read_config<const N: usize>(&mut self, offset: usize) -> [u8; N] {
        let bytes = self.config[offset..offset + N].try_into().unwrap();
        if let Some(left) = self.changes.checked_sub(1) {
            self.changes = left;
            self.generation = self.generation.wrapping_add(1);
            self.config.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        bytes
    }
}
