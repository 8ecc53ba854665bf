//! A device whose cable ends in the test, and the driver of one of its queues.

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
use crate::devices::virtio::{DeviceError, Progress, VirtioDevice};

pub(super) const SETTINGS: NetConfig = NetConfig { mac: [2, 1, 2, 3, 4, 5], mtu: 1500 };

/// Features: checksums and segmentation both ways, buffers that are put together.
pub(super) const CHECKSUM: u64 = 1 << 0;
pub(super) const GUEST_CHECKSUM: u64 = 1 << 1;
pub(super) const GUEST_TSO4: u64 = 1 << 7;
pub(super) const HOST_TSO4: u64 = 1 << 11;
pub(super) const MERGE: u64 = 1 << 15;
pub(super) const ALL: u64 = CHECKSUM | GUEST_CHECKSUM | GUEST_TSO4 | HOST_TSO4 | MERGE | 1 << 8 | 1 << 12;

/// A segment over IPv4 that is to be cut.
pub(super) const SEGMENT: VnetHeader = VnetHeader {
    flags: 1,
    gso_type: 1,
    hdr_len: 54,
    gso_size: 1460,
    csum_start: 34,
    csum_offset: 16,
    num_buffers: 0,
};

/// The other end.
#[derive(Debug, Default)]
pub(super) struct MockNetwork {
    pub(super) to_guest: VecDeque<(VnetHeader, Vec<u8>)>,
    pub(super) from_guest: Vec<(VnetHeader, Vec<u8>)>,
    pub(super) offloads: Vec<Offloads>,
    /// How many frames it takes before it has no room.
    pub(super) room: Option<usize>,
    pub(super) is_lost: bool,
    /// Frames were taken, but have not left.
    pub(super) is_clogged: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MockBackend(Arc<Mutex<MockNetwork>>);

impl MockBackend {
    pub(super) fn wire(&self) -> MutexGuard<'_, MockNetwork> {
        self.0.lock().unwrap()
    }

    fn state(&self) -> Result<(), Disconnected> {
        if self.wire().is_lost { Err(io::Error::from(ErrorKind::BrokenPipe).into()) } else { Ok(()) }
    }
}

impl Backend for MockBackend {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        self.wire().offloads.push(offloads);
        Ok(())
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        self.state()?;
        assert!(room.len() <= MAX_IOVECS);
        let Some((header, frame)) = self.wire().to_guest.pop_front() else { return Ok(None) };
        scatter(&frame, room);
        let most = room.iter().map(VolatileSlice::len).sum();
        Ok(Some(ReceivedFrame { header, length: frame.len().min(most) }))
    }

    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        self.state()?;
        let mut wire = self.wire();
        if wire.room == Some(0) {
            return Ok(TxStatus::WouldBlock);
        }
        wire.room = wire.room.map(|room| room - 1);
        let mut bytes = Vec::new();
        gather(frame, &mut bytes);
        wire.from_guest.push((header, bytes));
        Ok(TxStatus::Accepted)
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        Ok(if self.wire().is_clogged { TxStatus::WouldBlock } else { TxStatus::Accepted })
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
    pub(super) cable: MockBackend,
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
        let cable = MockBackend::default();
        let mut net = Net::new(Box::new(cable.clone()), SETTINGS);
        net.activate(features);
        let driver = TestDriver::new(size);
        let queue = driver.queue();
        Self { cable, net, driver, queue, index }
    }

    pub(super) fn serve(&mut self) -> Result<Progress, DeviceError> {
        self.net.process(self.index, &mut self.queue, &self.driver.memory)
    }

    pub(super) fn finish(&mut self) -> Progress {
        loop {
            let served = self.serve().unwrap();
            if served != Progress::Yielded {
                return served;
            }
        }
    }

    /// Offers buffers of this size, one behind the other.
    pub(super) fn offer(&mut self, count: u32, size: u32) {
        for number in 0..count {
            self.driver.send(&[(BUFFERS + u64::from(number * size), size, true)]);
        }
    }

    pub(super) fn arrive(&self, header: VnetHeader, frame: &[u8]) {
        self.cable.wire().to_guest.push_back((header, frame.to_vec()));
    }

    /// The frames that the driver has got: headers, and bytes from buffers of this size that were used in order.
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

    /// Has the guest send a frame.
    pub(super) fn send(&mut self, header: VnetHeader, frame: &[u8]) {
        self.driver.send_bytes(BUFFERS, &[&header.to_bytes()[..], frame].concat());
    }

    pub(super) fn sent(&self) -> Vec<(VnetHeader, Vec<u8>)> {
        std::mem::take(&mut self.cable.wire().from_guest)
    }
}

/// Bytes that tell where they are.
pub(super) fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

pub(super) fn with_buffers(header: VnetHeader, buffers: u16) -> VnetHeader {
    VnetHeader { num_buffers: buffers, ..header }
}
