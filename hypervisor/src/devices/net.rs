//! The network device (virtio 1.2 §5.1), with one pair of queues.
//!
//! The device moves Ethernet frames between its virtqueues and a backend, which is a tap or the user-mode
//! network. It checks each frame's header. If the driver has negotiated offloads, guest and host do checksums
//! and segmentation themselves, and the device does not touch the data. If the backend is disconnected, the
//! link goes down: the device notifies the guest, and drops the frames that the guest sends.
//!
//! | module | |
//! | --- | --- |
//! | `config` | queues, features, configuration space |
//! | `rx`, `rx_buffers` | `receiveq1`, and the buffers that the guest has made available there |
//! | `tx` | `transmitq1` |
//! | [`header`] | the header of each frame (vnet header): checksum offload and segmentation offload |
//! | [`backend`] | the host's side: a tap, or sockets |
//! | [`egress`] | filter by the hosts to which the guest may open connections |

pub mod backend;
mod config;
pub mod egress;
pub mod header;
mod rx;
mod rx_buffers;
mod tx;

use std::mem;

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::VIRTIO_NET_F_MRG_RXBUF;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use self::backend::{Backend, ServeError};
pub use self::config::{MAX_FRAME, MIN_FRAME, NetConfig};
use self::config::{QUEUE_SIZES, RECEIVEQ, TAGGED_ETHERNET_HEADER, TRANSMITQ};
use self::header::Offloads;
use self::rx::{Receiver, RxFeatures};
use self::tx::Transmitter;
use super::rate_limiter::RateLimiter;
use super::virtio::chain::{Completion, serve_chains};
use super::virtio::{DeviceError, HostEvent, Interest, QueueProgress, VirtioDevice, read_window};

/// A virtio network device.
#[derive(Debug)]
pub struct Net {
    config: NetConfig,
    backend: Box<dyn Backend>,
    /// Negotiated offloads that the backend does not have yet. The vCPU thread that handles the write of
    /// `DRIVER_OK` is not permitted to make the system call that sets them, so the network thread sets them
    /// before it moves the next frame.
    pending_offloads: Option<Offloads>,
    is_link_up: bool,
    has_config_changed: bool,
    receiver: Receiver,
    transmitter: Transmitter,
    /// Rate limiters, one for each queue, indexed by the queue's number.
    limiters: [RateLimiter; 2],
}

impl Net {
    /// Creates a network device for `backend`, with the link up.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, config: NetConfig) -> Self {
        Self {
            config,
            backend,
            pending_offloads: None,
            is_link_up: true,
            has_config_changed: false,
            receiver: Receiver::default(),
            transmitter: Transmitter::default(),
            limiters: Default::default(),
        }
    }

    /// Returns the device with rate limits (bytes and frames) for received and for transmitted frames.
    #[must_use]
    pub fn with_limiters(self, input: RateLimiter, output: RateLimiter) -> Self {
        Self { limiters: [input, output], ..self }
    }

    fn serve(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, ServeError> {
        if let Some(offloads) = self.pending_offloads.take().filter(|_| self.is_link_up) {
            self.backend.set_offloads(offloads).map_err(DeviceError::from)?;
        }
        let [input, output] = &mut self.limiters;
        match index {
            RECEIVEQ if !self.is_link_up => Ok(QueueProgress::Blocked),
            // Without a link, transmitted frames are dropped.
            _ if !self.is_link_up => {
                Ok(serve_chains(queue, memory, |chain| Ok(Completion { written: 0, work: chain.length() }))?)
            }
            RECEIVEQ => self.receiver.serve(&mut *self.backend, input, queue, memory),
            TRANSMITQ => self.transmitter.serve(&mut *self.backend, output, queue, memory),
            _ => Ok(QueueProgress::Done),
        }
    }
}

impl VirtioDevice for Net {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn features(&self) -> u64 {
        config::features(self.backend.has_offloads())
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        read_window(&self.config.config_space(self.is_link_up), offset, data);
    }

    fn activate(&mut self, features: u64) {
        let offloads = Offloads::of_guest(features);
        self.receiver.features = RxFeatures {
            has_mergeable_buffers: features & 1 << VIRTIO_NET_F_MRG_RXBUF != 0,
            offloads,
            max_mtu_frame: usize::from(self.config.mtu) + TAGGED_ETHERNET_HEADER,
        };
        self.transmitter.offloads = Offloads::of_host(features);
        self.pending_offloads = Some(offloads);
    }

    fn reset(&mut self) {
        self.receiver.reset();
        self.pending_offloads = None;
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, DeviceError> {
        match self.serve(index, queue, memory) {
            Ok(progress) => Ok(progress),
            Err(ServeError::Device(error)) => Err(error),
            Err(ServeError::Disconnected(error)) => {
                log::warn!("the guest has no network any more: {error}");
                self.is_link_up = false;
                self.has_config_changed = true;
                // `Yielded` makes the worker serve the queue again, now with the link down.
                Ok(QueueProgress::Yielded)
            }
        }
    }

    fn take_config_change(&mut self) -> bool {
        mem::take(&mut self.has_config_changed)
    }

    /// `transmitq1` is drained when the guest ends, so that the last segments of its connections leave.
    fn is_output(&self, index: usize) -> bool {
        index == TRANSMITQ
    }

    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let event = match index {
            RECEIVEQ => HostEvent { fd: self.backend.input(), interest: Interest::Readable },
            TRANSMITQ => HostEvent { fd: self.backend.output(), interest: Interest::Writable },
            _ => return None,
        };
        // When the backend is congested, the limiter has already admitted the frame that is not fully
        // written. So this waits for the backend, not for the limiter's timer, which applies to the next
        // frame.
        let is_admitted = index == TRANSMITQ && self.transmitter.is_congested;
        let timer = self.limiters.get(index).filter(|_| !is_admitted).and_then(RateLimiter::timer);
        self.is_link_up.then_some(timer.unwrap_or(event))
    }

    fn finish(&mut self) {
        self.backend.finish();
    }

    fn lift_limits(&mut self) {
        self.limiters.iter_mut().for_each(RateLimiter::lift);
    }
}

#[cfg(test)]
mod tests;
