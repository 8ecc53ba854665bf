//! The network device (virtio 1.2, section 5.1): a queue of received frames and one of frames to be sent.
//!
//! | module | |
//! | --- | --- |
//! | `receive`, `room` | frames on their way to the guest, and its buffers for them |
//! | `transmit` | frames from the guest |
//! | [`header`] | which part of the work on a frame is left to its receiver |
//! | [`backend`] | what there is at the other end of the cable: |
//! | [`tap`] | a network interface of the host |
//! | [`passt`] | a program that makes the guest's connections with the host's sockets |
//! | [`stream`] | frames in the stream of bytes between passt and this device |
//! | `vectored` | system calls that copy frames from and to guest memory |

pub mod backend;
pub mod header;
pub mod passt;
mod receive;
mod room;
pub mod stream;
pub mod tap;
mod transmit;
mod vectored;

use std::mem;

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::{
    VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_TSO6,
    VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_MAC, VIRTIO_NET_F_MRG_RXBUF,
    VIRTIO_NET_F_MTU, VIRTIO_NET_F_STATUS, VIRTIO_NET_S_LINK_UP,
};
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use self::backend::{Backend, Failure};
use self::header::Offloads;
use self::receive::{Receiver, Terms};
use self::transmit::Transmitter;
use super::virtio::chain::{Answer, serve_chains};
use super::virtio::{DeviceError, HostEvent, HostState, Served, VirtioDevice, read_window};

/// Queue of the buffers for received frames.
const RECEIVE: usize = 0;

/// Queue of the frames to be sent.
const TRANSMIT: usize = 1;

/// Most descriptors of each queue.
const QUEUE_SIZES: [u16; 2] = [512, 512];

/// Bytes of an Ethernet header without and with the tag of a virtual network. There is no checksum behind the frame.
const ETHERNET: usize = 14;
const TAGGED: usize = ETHERNET + 4;

/// Fewest and most bytes of a frame: a header, and behind it the longest IP packet.
pub const MIN_FRAME: usize = ETHERNET;
/// See [`MIN_FRAME`].
pub const MAX_FRAME: usize = TAGGED + 65_535;

/// What the guest is told of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The guest's address on the network.
    pub mac: [u8; 6],
    /// Most bytes of an IP packet.
    pub mtu: u16,
}

/// A network device.
#[derive(Debug)]
pub struct Net {
    settings: Settings,
    backend: Box<dyn Backend>,
    /// What the host has to be told before the next frame: whoever starts the driver may not be allowed to.
    offloads: Option<Offloads>,
    is_up: bool,
    has_changed: bool,
    receiver: Receiver,
    transmitter: Transmitter,
}

impl Net {
    /// A device at this end of a cable.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, settings: Settings) -> Self {
        Self {
            settings,
            backend,
            offloads: None,
            is_up: true,
            has_changed: false,
            receiver: Receiver::default(),
            transmitter: Transmitter::default(),
        }
    }

    fn serve(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, Failure> {
        if let Some(offloads) = self.offloads.take().filter(|_| self.is_up) {
            self.backend.set_offloads(offloads).map_err(DeviceError::from)?;
        }
        match index {
            RECEIVE if !self.is_up => Ok(Served::Waiting),
            // What is sent goes nowhere.
            _ if !self.is_up => {
                Ok(serve_chains(queue, memory, |chain| Ok(Answer { written: 0, work: chain.length() }))?)
            }
            RECEIVE => self.receiver.serve(&mut *self.backend, queue, memory),
            TRANSMIT => self.transmitter.serve(&mut *self.backend, queue, memory),
            _ => Ok(Served::All),
        }
    }
}

impl VirtioDevice for Net {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn features(&self) -> u64 {
        let always = 1 << VIRTIO_NET_F_MAC
            | 1 << VIRTIO_NET_F_MTU
            | 1 << VIRTIO_NET_F_STATUS
            | 1 << VIRTIO_NET_F_MRG_RXBUF;
        let offloads = 1 << VIRTIO_NET_F_CSUM
            | 1 << VIRTIO_NET_F_GUEST_CSUM
            | 1 << VIRTIO_NET_F_HOST_TSO4
            | 1 << VIRTIO_NET_F_HOST_TSO6
            | 1 << VIRTIO_NET_F_GUEST_TSO4
            | 1 << VIRTIO_NET_F_GUEST_TSO6;
        always | if self.backend.has_offloads() { offloads } else { 0 }
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        // Section 5.1.4: mac, status, max_virtqueue_pairs (not offered), mtu.
        let status = if self.is_up { VIRTIO_NET_S_LINK_UP } else { 0 };
        let [a, b, ..] = status.to_le_bytes();
        let [c, d] = self.settings.mtu.to_le_bytes();
        let config = [&self.settings.mac[..], &[a, b], &[0, 0], &[c, d]].concat();
        read_window(&config, offset, data);
    }

    fn activate(&mut self, features: u64) {
        let offloads = Offloads::of_guest(features);
        self.receiver.terms = Terms {
            is_spread: features & 1 << VIRTIO_NET_F_MRG_RXBUF != 0,
            offloads,
            network_frame: usize::from(self.settings.mtu) + TAGGED,
        };
        self.transmitter.offloads = Offloads::of_host(features);
        self.offloads = Some(offloads);
    }

    fn reset(&mut self) {
        self.receiver.reset();
        self.offloads = None;
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, DeviceError> {
        match self.serve(index, queue, memory) {
            Ok(served) => Ok(served),
            Err(Failure::Device(error)) => Err(error),
            Err(Failure::Lost(error)) => {
                log::warn!("the guest has no network any more: {error}");
                self.is_up = false;
                self.has_changed = true;
                // It is served once more, in the other way.
                Ok(Served::Partly)
            }
        }
    }

    fn take_change(&mut self) -> bool {
        mem::take(&mut self.has_changed)
    }

    /// So that the last words of a connection are sent.
    fn is_output(&self, index: usize) -> bool {
        index == TRANSMIT
    }

    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let event = match index {
            RECEIVE => HostEvent { descriptor: self.backend.input(), state: HostState::Readable },
            TRANSMIT => HostEvent { descriptor: self.backend.output(), state: HostState::Writable },
            _ => return None,
        };
        self.is_up.then_some(event)
    }
}

#[cfg(test)]
mod tests;
