//! The network device, and the queue of frames that wait for it.

pub(crate) mod device;
pub(crate) mod tx_queue;

use smoltcp::wire::EthernetAddress;

use crate::phy::device::{NetDeviceInfo, Offload};
use crate::phy::tx_queue::{Link, Queue};

/// Properties of the device, and its MAC address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetInterface {
    pub(crate) info: NetDeviceInfo,
    pub(crate) mac: EthernetAddress,
}

/// State of the layer: properties of the device, and the queue of frames that wait for it.
#[derive(Debug)]
pub(crate) struct Phy {
    /// The device's interface; `None` without a device.
    pub(crate) interface: Option<NetInterface>,
    /// Frames that wait for room in the transmit queue of the device.
    pub(crate) outbox: Queue,
    /// Time in nanoseconds at which the receive queue was last empty. All frames that had arrived by then are
    /// handled.
    pub(crate) caught_up: u64,
}

impl Phy {
    pub(crate) fn new(info: Option<NetDeviceInfo>, now: u64) -> Self {
        Self {
            interface: info.map(|info| NetInterface { info, mac: EthernetAddress(info.mac) }),
            outbox: Queue::default(),
            caught_up: now,
        }
    }

    /// MTU of the device in bytes; 0 without one.
    pub(crate) fn mtu(&self) -> usize {
        self.interface.map_or(0, |interface| usize::from(interface.info.mtu))
    }

    /// Queues a frame of `size` bytes for the device. `fill` writes the frame. Drops it if the outbox is
    /// full.
    pub(crate) fn post(&mut self, size: usize, mut fill: impl FnMut(&mut [u8])) {
        if self.outbox.can_transmit(size) {
            self.outbox.transmit(size, Offload::default(), &mut fill);
        }
    }

    /// Transmits frames of the outbox, while the device has room.
    pub(crate) fn flush(&mut self, link: &mut dyn Link) {
        while let Some(size) = self.outbox.next_size() {
            if !link.can_transmit(size) {
                return;
            }
            if let Some(frame) = self.outbox.pop() {
                link.transmit(size, Offload::default(), &mut |bytes| bytes.copy_from_slice(&frame));
                self.outbox.recycle(frame);
            }
        }
    }
}
