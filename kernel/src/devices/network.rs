//! The virtio network device.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::devices::MirroredPages;
use hermit_hal::once::Once;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_interface::net::{self, DeviceInfo};
use hermit_virtio::Id;
use hermit_virtio::net::{
    BufferSizes, ChecksumOffload, IpVersion, MAX_FRAME, NetDriver, SegmentationOffload, TxOffload,
};

use super::{Pages, Transport, find, start};
use crate::entropy;
use crate::interrupts::InterruptHandler;

/// Bits of the first byte of a MAC address: group address, locally administered address.
const GROUP_BIT: u8 = 1;
const LOCAL_BIT: u8 = 2;

/// A network device. Its interrupt handler takes the lock of the driver. So no method holds this lock while
/// the network stack reads or writes a frame: the frame is first taken out of the driver.
#[derive(Debug)]
pub(crate) struct NetworkDevice {
    driver: SpinLock<NetDriver<Transport, Pages, MirroredPages>>,
    /// True if buffers were made available since the last notification of the device.
    notify_pending: AtomicBool,
    /// MAC address that is used if the device has no MAC address.
    random_mac: [u8; 6],
    /// Function that is called after each interrupt of the device, while interrupts are masked.
    on_interrupt: fn(),
}

static NETWORK: Once<Option<&'static NetworkDevice>> = Once::new();

/// Initialises the first network device, if there is one. `on_interrupt` is called after each interrupt of
/// the device. The first call may come before this function returns.
///
/// # Errors
///
/// `ENOMEM`. Another call may try again.
pub(crate) fn init(on_interrupt: fn()) -> Result<(), Errno> {
    let started = NETWORK.try_call_once(|| match start_first(on_interrupt) {
        Err(Errno::ENOMEM) => Err(Errno::ENOMEM),
        started => Ok(started.ok()),
    });
    started.map(|_| ())
}

fn start_first(on_interrupt: fn()) -> Result<&'static NetworkDevice, Errno> {
    let device = find(Id::Net, 0)?;
    start(device, |transport, memory| {
        let driver = SpinLock::new(NetDriver::new(transport, memory, BufferSizes::default())?);
        let notify_pending = AtomicBool::new(true);
        Ok(NetworkDevice { driver, notify_pending, random_mac: random_mac(), on_interrupt })
    })
}

/// Returns the network device, if it is initialised.
pub(crate) fn network() -> Option<&'static NetworkDevice> {
    NETWORK.get().copied().flatten()
}

/// Returns a random unicast MAC address that is locally administered (IEEE 802, section 8).
fn random_mac() -> [u8; 6] {
    let mut address = [0; 6];
    // This cannot fail: without a source of entropy, the network is not started.
    let _: Result<(), _> = entropy::fill(&mut address);
    let [first, ..] = &mut address;
    *first = *first & !GROUP_BIT | LOCAL_BIT;
    address
}

impl InterruptHandler for NetworkDevice {
    fn interrupt(&self) {
        // A broken device receives and sends no more frames, like one without a link.
        let _: Result<_, _> = self.driver.lock().interrupt();
        (self.on_interrupt)();
    }
}

impl NetworkDevice {
    /// Returns the properties of the device for the network stack.
    pub(crate) fn describe(&self) -> DeviceInfo {
        let info = self.driver.lock().info();
        let max_tso_size = |has_tso: bool| if has_tso { u32::try_from(MAX_FRAME).unwrap_or(0) } else { 0 };
        DeviceInfo {
            address: info.mac.unwrap_or(self.random_mac),
            mtu: info.mtu,
            segments_v4: max_tso_size(info.tso.v4),
            segments_v6: max_tso_size(info.tso.v6),
            completes_checksums: info.tx_checksum,
        }
    }

    /// Calls `take` with the next received frame, and with true if the device has verified the frame's
    /// checksum. Returns false if there is no frame.
    pub(crate) fn receive(&self, take: impl FnOnce(&[u8], bool)) -> bool {
        let taken = self.driver.lock().take_frame();
        let Ok(Some(mut frame)) = taken else { return false };
        frame.with_bytes(|bytes, info| take(bytes, info.checksum_valid));
        self.driver.lock().release_frame(frame);
        self.notify_pending.store(true, Relaxed);
        true
    }

    /// Returns true if there is room for a frame of `size` bytes. If not, the device raises an interrupt when
    /// there is room.
    pub(crate) fn can_transmit(&self, size: usize) -> bool {
        self.driver.lock().can_transmit(size)
    }

    /// Queues a frame of `size` bytes. `fill` writes the frame. If there is no room, or if the device is
    /// broken, the frame is lost.
    pub(crate) fn transmit(&self, size: usize, offload: &net::Offload, fill: impl FnOnce(&mut [u8])) {
        let reserved = self.driver.lock().reserve_frame(size, tx_offload(offload));
        let Ok(frame) = reserved else { return };
        let frame = frame.fill(fill);
        self.driver.lock().submit_frame(frame);
        self.notify_pending.store(true, Relaxed);
    }

    /// Returns true if the TX queue still has frames. If so, the device raises an interrupt when the queue is
    /// empty.
    pub(crate) fn is_sending(&self) -> bool {
        self.driver.lock().arm_tx_empty().unwrap_or(false)
    }

    /// Returns true if the TX queue is empty, or if the device is broken and will never empty it.
    pub(crate) fn has_sent(&self) -> bool {
        self.driver.lock().is_tx_empty().unwrap_or(true)
    }

    /// Notifies the device of new TX frames and RX buffers, if there are any.
    pub(crate) fn flush(&self) {
        // No other thread sets the flag between the load and the store, because callers hold the lock of the
        // stack.
        if self.notify_pending.load(Relaxed) {
            self.notify_pending.store(false, Relaxed);
            self.driver.lock().notify();
        }
    }

    /// Enables or disables RX interrupts. Returns true if frames have already been received. The device may
    /// raise no interrupt for these frames.
    pub(crate) fn receive_interrupts(&self, on: bool) -> bool {
        self.driver.lock().set_rx_interrupt(on).unwrap_or(false)
    }
}

fn tx_offload(offload: &net::Offload) -> TxOffload {
    let checksum = ChecksumOffload { start: offload.checksum_start, offset: offload.checksum_offset };
    let version = if offload.family == net::V4 { IpVersion::V4 } else { IpVersion::V6 };
    let segment =
        SegmentationOffload { version, header_size: offload.header_size, mss: offload.segment_size };
    TxOffload {
        checksum: (checksum.start != 0).then_some(checksum),
        segment: (segment.mss != 0).then_some(segment),
    }
}
