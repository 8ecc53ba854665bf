//! Adapters for smoltcp: conversion of times, and implementations of its `Device`, each for one call.

use alloc::vec::Vec;

use smoltcp::phy::{Device, DeviceCapabilities, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::phy::device::Offload;
use crate::phy::tx_queue::Link;

/// Converts nanoseconds to smoltcp's time.
pub(crate) fn instant(now: u64) -> Instant {
    Instant::from_micros(i64::try_from(now / 1000).unwrap_or(i64::MAX))
}

/// Converts smoltcp's time to nanoseconds.
pub(crate) fn nanoseconds(instant: Instant) -> u64 {
    u64::try_from(instant.total_micros()).unwrap_or(0).saturating_mul(1000)
}

/// A device that receives one packet, and transmits the answer into a buffer.
pub(crate) struct Ingress<'a> {
    pub(crate) packet: Option<&'a [u8]>,
    pub(crate) reply: &'a mut Vec<u8>,
    pub(crate) capabilities: &'a DeviceCapabilities,
}

pub(crate) struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

pub(crate) struct Reply<'a>(&'a mut Vec<u8>);

impl TxToken for Reply<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, size: usize, fill: F) -> R {
        self.0.clear();
        self.0.resize(size, 0);
        fill(self.0)
    }
}

impl Device for Ingress<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Reply<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Reply<'_>)> {
        Some((Received(self.packet.take()?), Reply(self.reply)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Reply<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

/// Size in bytes of the largest frame that smoltcp sends on its own: an MLD report with 64 groups has 1,350.
const LARGEST: usize = 2048;

/// Creates the buffer for a frame that the device has no room for.
pub(crate) fn scratch() -> Vec<u8> {
    Vec::with_capacity(LARGEST)
}

/// A device that transmits only.
pub(crate) struct Egress<'a> {
    pub(crate) link: &'a mut dyn Link,
    pub(crate) capabilities: &'a DeviceCapabilities,
    /// Buffer made by [`scratch`].
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl Device for Egress<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Transmission<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Transmission<'_>)> {
        None
    }

    fn transmit(&mut self, _now: Instant) -> Option<Transmission<'_>> {
        let has_room = self.link.can_transmit(self.capabilities.max_transmission_unit);
        has_room.then_some(Transmission(self.link, self.scratch))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

pub(crate) struct Transmission<'a>(&'a mut dyn Link, &'a mut Vec<u8>);

/// Calls `fill` with a scratch buffer, for a frame that is discarded; returns its result.
fn fill_scratch<R>(scratch: &mut Vec<u8>, size: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
    scratch.clear();
    scratch.resize(size, 0);
    fill(scratch)
}

impl TxToken for Transmission<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, size: usize, fill: F) -> R {
        let mut fill = Some(fill);
        let mut result = None;
        self.0.transmit(size, Offload::default(), &mut |bytes| {
            if let Some(fill) = fill.take() {
                result = Some(fill(bytes));
            }
        });
        // smoltcp needs the result of `fill` even if the device had no room for the frame.
        result
            .or_else(|| fill.take().map(|fill| fill_scratch(self.1, size, fill)))
            .unwrap_or_else(|| unreachable!("the function is called by the link, or else here"))
    }
}
