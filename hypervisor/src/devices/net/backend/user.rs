//! The backend `user`: each connection of the guest becomes a socket of uhyve. The network thread handles
//! these sockets, so the backend needs neither root nor another program.
//!
//! [`hermit_usernet`] implements the protocols. This module implements the sockets, and moves frames between
//! the network and the device.

mod frames;
mod sockets;
mod stream;

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use hermit_options::egress::EgressPolicy;
use hermit_usernet::config::Config;
use hermit_usernet::{Limits, MAX_HEADERS, Offload, UserNetwork};
use vm_memory::VolatileSlice;

use self::sockets::Sockets;
use super::iovec::{gather, scatter};
use super::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::MAX_FRAME;
use crate::devices::net::header::{Offloads, VnetHeader};

/// User-mode network of a guest.
#[derive(Debug)]
pub struct User {
    network: UserNetwork<Sockets>,
    sockets: Sockets,
    offloads: Offloads,
    /// Headers of the frame that is being received.
    head: Vec<u8>,
    /// Number of frames for the guest since the last poll.
    frames: u32,
}

/// Time limit, after the guest has ended, for the delivery of data that the guest has sent.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of frames for the guest between two polls of the sockets.
const FRAMES_BETWEEN_POLLS: u32 = 32;

impl User {
    /// Creates a network. `listeners` and `ports` are the sockets of the forwarded ports in `config`, in the
    /// same order.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub fn new(
        config: Config,
        listeners: Vec<TcpListener>,
        ports: Vec<UdpSocket>,
        policy: EgressPolicy,
    ) -> io::Result<Self> {
        let sockets = Sockets::new(listeners, ports, policy)?;
        Ok(Self {
            network: UserNetwork::new(config),
            sockets,
            offloads: Offloads::default(),
            head: Vec::new(),
            frames: 0,
        })
    }

    /// Returns the descriptor that is readable while events of sockets are pending.
    pub(crate) fn events_fd(&self) -> BorrowedFd<'_> {
        self.sockets.events_fd()
    }

    /// Handles pending events of sockets, and expired timers. If no event is pending, waits for at most
    /// `timeout`.
    fn poll(&mut self, timeout: Duration) {
        self.frames = 0;
        for event in self.sockets.events(timeout) {
            self.network.handle_event(&mut self.sockets, event);
        }
        self.network.handle_timers(&mut self.sockets);
    }

    /// Makes the descriptor [`Backend::input`] readable only for events of sockets and for the next timer.
    fn wait_for_events(&mut self) {
        self.sockets.withdraw();
        self.sockets.wake_at(self.network.deadline());
    }
}

/// Returns the vnet header of a frame with this offload. `head` is the size in bytes of the frame's headers.
fn vnet_header(offload: Offload, head: usize) -> VnetHeader {
    let Some((start, offset)) = offload.checksum else { return VnetHeader::default() };
    let head = u16::try_from(head).unwrap_or(u16::MAX);
    VnetHeader::partial(start, offset, offload.segment_size.map(|size| (size, head)), offload.is_v4)
}

impl Backend for User {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        self.offloads = offloads;
        Ok(())
    }

    /// Polls the sockets if no frame is queued, and every `FRAMES_BETWEEN_POLLS` frames otherwise: a flow
    /// with much data for the guest must not starve the others.
    fn may_have_frame(&mut self) -> bool {
        self.frames += 1;
        if self.frames >= FRAMES_BETWEEN_POLLS || !self.network.has_output() {
            self.poll(Duration::ZERO);
        }
        let has_output = self.network.has_output();
        if !has_output {
            self.wait_for_events();
        }
        has_output
    }

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        // The device offers one byte more than the longest valid frame, to detect longer ones.
        let max_frame = frames::length(buffers).saturating_sub(1).min(MAX_FRAME);
        let has_large_segments = (self.offloads.tcp4, self.offloads.tcp6);
        self.network.set_limits(Limits { max_frame, has_large_segments });
        let Some(output) = self.network.receive(&mut self.sockets, &mut self.head, &mut { buffers }) else {
            self.wait_for_events();
            return Ok(None);
        };
        let length = self.head.len() + output.data;
        scatter(&self.head, buffers);
        let mut header = vnet_header(output.offload, self.head.len());
        if output.offload.checksum.is_some() && !self.offloads.checksum {
            // The driver has not negotiated checksum offload, so the checksum is computed here. The data is
            // already in guest memory, and is copied back for that.
            let mut frame = Vec::new();
            gather(&frames::part(buffers, 0..length), &mut frame);
            output.offload.complete(&mut frame);
            scatter(&frame, buffers);
            header = VnetHeader::default();
        }
        Ok(Some(ReceivedFrame { header, length }))
    }

    fn send(&mut self, _: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        let length = frames::length(frame);
        self.head.clear();
        gather(&frames::part(frame, 0..length.min(MAX_HEADERS)), &mut self.head);
        self.network.transmit(&mut self.sockets, &self.head, &frame, length);
        Ok(TxStatus::Accepted)
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        if self.network.has_output() {
            self.sockets.announce();
        }
        self.sockets.wake_at(self.network.deadline());
        Ok(TxStatus::Accepted)
    }

    fn finish(&mut self) {
        // The guest receives no more frames, so queued frames must not end the waits below.
        self.sockets.withdraw();
        let start = Instant::now();
        while self.network.has_unsent() {
            let left = FINISH_TIMEOUT.saturating_sub(start.elapsed());
            if left.is_zero() {
                log::warn!("network: what the guest has sent last was not taken by its peers");
                return;
            }
            self.poll(left);
        }
    }

    fn input(&self) -> RawFd {
        self.sockets.events_fd().as_raw_fd()
    }

    fn output(&self) -> RawFd {
        self.sockets.output_fd().as_raw_fd()
    }
}
