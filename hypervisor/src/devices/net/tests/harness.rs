//! A network device with a mock backend, and the driver of one of its queues.
//!
//! The mock backend stores sent frames, and returns frames that a test has queued. Tests change its state,
//! such as its capacity, while the device uses it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use virtio_queue::Queue;
use vm_memory::VolatileSlice;

use crate::devices::net::backend::iovec::{MAX_IOVECS, gather, scatter};
use crate::devices::net::backend::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{Net, NetConfig};
use crate::devices::virtio::test_utils::{BUFFERS, TestDriver};
use crate::devices::virtio::{DeviceError, QueueProgress, VirtioDevice};

pub(super) const CONFIG: NetConfig = NetConfig { mac: [2, 1, 2, 3, 4, 5], mtu: 1500 };

/// Feature bits (virtio 1.2 §5.1.3).
pub(super) const CSUM: u64 = 1 << 0;
pub(super) const GUEST_CSUM: u64 = 1 << 1;
pub(super) const GUEST_TSO4: u64 = 1 << 7;
pub(super) const HOST_TSO4: u64 = 1 << 11;
pub(super) const MRG_RXBUF: u64 = 1 << 15;
pub(super) const ALL: u64 = CSUM | GUEST_CSUM | GUEST_TSO4 | HOST_TSO4 | MRG_RXBUF | 1 << 8 | 1 << 12;

/// Header of a large TCP segment over IPv4.
pub(super) const SEGMENT: VnetHeader = VnetHeader {
    flags: 1,
    gso_type: 1,
    hdr_len: 54,
    gso_size: 1460,
    csum_start: 34,
    csum_offset: 16,
    num_buffers: 0,
};

/// State of the mock backend.
#[derive(Debug, Default)]
pub(super) struct MockNetwork {
    pub(super) to_guest: VecDeque<(VnetHeader, Vec<u8>)>,
    pub(super) from_guest: Vec<(VnetHeader, Vec<u8>)>,
    pub(super) offloads: Vec<Offloads>,
    /// Number of frames that it still accepts, if limited.
    pub(super) capacity: Option<usize>,
    /// True if the backend is disconnected.
    pub(super) is_disconnected: bool,
    /// True if [`Backend::flush`] would block.
    pub(super) is_congested: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MockBackend(Arc<Mutex<MockNetwork>>);

impl MockBackend {
    pub(super) fn network(&self) -> MutexGuard<'_, MockNetwork> {
        self.0.lock().unwrap()
    }

    fn check_connected(&self) -> Result<(), Disconnected> {
        if self.network().is_disconnected {
            Err(io::Error::from(ErrorKind::BrokenPipe).into())
        } else {
            Ok(())
        }
    }
}

impl Backend for MockBackend {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        self.network().offloads.push(offloads);
        Ok(())
    }

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        self.check_connected()?;
        assert!(buffers.len() <= MAX_IOVECS);
        let Some((header, frame)) = self.network().to_guest.pop_front() else { return Ok(None) };
        scatter(&frame, buffers);
        let max = buffers.iter().map(VolatileSlice::len).sum();
        Ok(Some(ReceivedFrame { header, length: frame.len().min(max) }))
    }

    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        self.check_connected()?;
        let mut network = self.network();
        if network.capacity == Some(0) {
            return Ok(TxStatus::WouldBlock);
        }
        network.capacity = network.capacity.map(|capacity| capacity - 1);
        let mut bytes = Vec::new();
        gather(frame, &mut bytes);
        network.from_guest.push((header, bytes));
        Ok(TxStatus::Accepted)
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        Ok(if self.network().is_congested { TxStatus::WouldBlock } else { TxStatus::Accepted })
    }

    fn input(&self) -> RawFd {
        100
    }

    fn output(&self) -> RawFd {
        101
    }
}

/// A device and the driver of one of its queues.
pub(super) struct Harness {
    pub(super) backend: MockBackend,
    pub(super) net: Net,
    pub(super) driver: TestDriver,
    pub(super) queue: Queue,
    pub(super) index: usize,
}

impl Harness {
    pub(super) fn new(index: usize, features: u64) -> Self {
        Self::with_queue(index, features, 256)
    }

    pub(super) fn with_queue(index: usize, features: u64, size: u16) -> Self {
        let backend = MockBackend::default();
        let mut net = Net::new(Box::new(backend.clone()), CONFIG);
        net.activate(features);
        let driver = TestDriver::new(size);
        let queue = driver.queue();
        Self { backend, net, driver, queue, index }
    }

    pub(super) fn serve(&mut self) -> Result<QueueProgress, DeviceError> {
        self.net.process(self.index, &mut self.queue, &self.driver.memory)
    }

    /// Processes the queue until it no longer yields.
    pub(super) fn finish(&mut self) -> QueueProgress {
        loop {
            let served = self.serve().unwrap();
            if served != QueueProgress::Yielded {
                return served;
            }
        }
    }

    /// Makes `count` adjacent buffers of this size available.
    pub(super) fn add_buffers(&mut self, count: u32, size: u32) {
        for number in 0..count {
            self.driver.send(&[(BUFFERS + u64::from(number * size), size, true)]);
        }
    }

    /// Adds a frame for the guest to the backend.
    pub(super) fn arrive(&self, header: VnetHeader, frame: &[u8]) {
        self.backend.network().to_guest.push_back((header, frame.to_vec()));
    }

    /// Frames in the used buffers, which have this size and are used in order.
    pub(super) fn received(&mut self, size: u32) -> Vec<(VnetHeader, Vec<u8>)> {
        let used = self.driver.used();
        let mut rest = used.iter();
        let mut frames = Vec::new();
        while let Some(&first) = rest.next() {
            let mut bytes = self.buffer(first, size);
            let header =
                VnetHeader::from(<[u8; VNET_HEADER_SIZE]>::try_from(&bytes[..VNET_HEADER_SIZE]).unwrap());
            for _ in 1..header.num_buffers {
                bytes.extend(self.buffer(*rest.next().unwrap(), size));
            }
            frames.push((header, bytes.split_off(VNET_HEADER_SIZE)));
        }
        frames
    }

    fn buffer(&self, (head, length): (u32, u32), size: u32) -> Vec<u8> {
        assert!(length <= size);
        self.driver.bytes(BUFFERS + u64::from(head * size), usize::try_from(length).unwrap())
    }

    /// Makes a frame available in the `transmitq`.
    pub(super) fn send(&mut self, header: VnetHeader, frame: &[u8]) {
        self.driver.send_bytes(BUFFERS, &[&header.to_bytes()[..], frame].concat());
    }

    /// Frames that the backend has accepted.
    pub(super) fn sent(&self) -> Vec<(VnetHeader, Vec<u8>)> {
        std::mem::take(&mut self.backend.network().from_guest)
    }
}

/// A frame in which each byte depends on its offset.
pub(super) fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

pub(super) fn with_buffers(header: VnetHeader, buffers: u16) -> VnetHeader {
    VnetHeader { num_buffers: buffers, ..header }
}
