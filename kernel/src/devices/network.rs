//! The network device.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::devices::{Allocator, Mirror};
use hermit_hal::sync::SpinLock;
use hermit_interface::net::{self, Device};
use hermit_virtio::Id;
use hermit_virtio::net::{
    BufferSizes, ChecksumOffload, IpVersion, MAX_FRAME, Net, SegmentationOffload, TxOffload,
};
use spin::Once;

use super::{Pages, Transport, find, install};
use crate::entropy;
use crate::interrupts::Handler;

/// The device. Its calls mask interrupts meanwhile; the functions that they are given do not call it.
#[derive(Debug)]
pub(crate) struct Network {
    driver: SpinLock<Net<Transport, Pages, Mirror>>,
    /// The device has not been told of everything that it got.
    is_untold: AtomicBool,
    /// The address if the device has none.
    chosen: [u8; 6],
    /// Called after each interrupt of the device, with interrupts masked.
    on_interrupt: fn(),
}

static NETWORK: Once<Option<&'static Network>> = Once::new();

/// Takes the first network device into use, if there is one; `on_interrupt` is called after each of its interrupts.
pub(crate) fn init(on_interrupt: fn()) {
    NETWORK.call_once(|| {
        let found = find(Id::Net, 0)?;
        let (transport, line) = found.transport()?;
        let driver = Net::new(transport, &Allocator, BufferSizes::default())
            .inspect_err(|error| found.warn(error))
            .ok()?;
        let driver = SpinLock::new(driver);
        let is_untold = AtomicBool::new(true);
        install(Network { driver, is_untold, chosen: choose_address(), on_interrupt }, line)
    });
}

/// The device that is in use.
pub(crate) fn network() -> Option<&'static Network> {
    NETWORK.get().copied().flatten()
}

/// An address of nobody else: random, locally administered, of one host (IEEE 802, section 8).
fn choose_address() -> [u8; 6] {
    let mut address = [0; 6];
    // Without a source the network does not start.
    let _: Result<(), _> = entropy::fill(&mut address);
    let [first, ..] = &mut address;
    *first = *first & !1 | 2;
    address
}

impl Handler for Network {
    fn interrupt(&self) {
        // If it is broken, there are no more frames, as with a cable that is pulled.
        let _: Result<_, _> = self.driver.lock().interrupt();
        (self.on_interrupt)();
    }
}

impl Network {
    /// What the stack has to know.
    pub(crate) fn describe(&self) -> Device {
        let info = self.driver.lock().info();
        let limit = |cuts: bool| if cuts { u32::try_from(MAX_FRAME).unwrap_or(0) } else { 0 };
        Device {
            address: info.mac.unwrap_or(self.chosen),
            mtu: info.mtu,
            segments_v4: limit(info.tso.v4),
            segments_v6: limit(info.tso.v6),
            completes_checksums: info.tx_checksum,
        }
    }

    /// Has `take` use the next frame, of which it also learns whether its checksums need no check; `false` if there is none.
    pub(crate) fn receive(&self, take: impl FnOnce(&[u8], bool)) -> bool {
        let received = self.driver.lock().receive(|frame, info| take(frame, info.checksum_valid));
        let is_received = matches!(received, Ok(Some(())));
        if is_received {
            self.is_untold.store(true, Relaxed);
        }
        is_received
    }

    /// Whether there is room for a frame. If not, an interrupt comes when there is.
    pub(crate) fn can_transmit(&self, size: usize) -> bool {
        self.driver.lock().can_transmit(size)
    }

    /// Has `fill` write a frame, and sends it. One that the device cannot send is lost.
    pub(crate) fn transmit(&self, size: usize, offload: &net::Offload, fill: impl FnOnce(&mut [u8])) {
        let _: Result<(), _> = self.driver.lock().transmit(size, translate(offload), fill);
        self.is_untold.store(true, Relaxed);
    }

    /// Whether the device still has frames to send. Then an interrupt comes when it has sent them.
    pub(crate) fn is_sending(&self) -> bool {
        self.driver.lock().arm_tx_empty().unwrap_or(false)
    }

    /// Whether the device has sent everything; a broken one never will.
    pub(crate) fn has_sent(&self) -> bool {
        self.driver.lock().is_tx_empty().unwrap_or(true)
    }

    /// Tells the device of all that was sent, and of the room for what it receives.
    pub(crate) fn flush(&self) {
        // Whoever has changed something calls this afterwards.
        if self.is_untold.load(Relaxed) {
            self.is_untold.store(false, Relaxed);
            self.driver.lock().notify();
        }
    }

    /// Has the device interrupt when something arrives, or not; whether something has arrived already.
    pub(crate) fn receive_interrupts(&self, on: bool) -> bool {
        self.driver.lock().set_rx_interrupt(on).unwrap_or(false)
    }
}

fn translate(offload: &net::Offload) -> TxOffload {
    let checksum = ChecksumOffload { start: offload.checksum_start, offset: offload.checksum_offset };
    let version = if offload.family == net::V4 { IpVersion::V4 } else { IpVersion::V6 };
    let segment =
        SegmentationOffload { version, header_size: offload.header_size, mss: offload.segment_size };
    TxOffload {
        checksum: (checksum.start != 0).then_some(checksum),
        segment: (segment.mss != 0).then_some(segment),
    }
}
