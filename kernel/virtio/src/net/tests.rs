//! The network driver with a device model.

mod allocations;
mod hostile_device;
mod init;
mod random_ops;
mod rx;
mod tx;

use std::vec;
use std::vec::Vec;

use super::header::HEADER_SIZE;
use super::{BufferSizes, MAX_FRAME, NetDriver, NetError, RxInfo, TxOffload};
use crate::device::{DeviceError, InitError};
use crate::testing::{
    DeviceModel, FakeDma, FakeMemory, FakeMirrored, FakeTransport, SharedDevice, TakenChain,
};

const CSUM: u64 = 1 << 0;
const GUEST_CSUM: u64 = 1 << 1;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const MRG_RXBUF: u64 = 1 << 15;
const STATUS: u64 = 1 << 16;

/// All features that the driver supports.
const ALL_FEATURES: u64 =
    CSUM | GUEST_CSUM | MTU | MAC | GUEST_TSO4 | GUEST_TSO6 | HOST_TSO4 | HOST_TSO6 | MRG_RXBUF | STATUS;

/// Number of descriptors of a virtqueue in tests for which any number will do. Miri takes seconds to fill a
/// large virtqueue.
const SIZE: u16 = if cfg!(miri) { 16 } else { 256 };

/// Minimum sizes of the buffers.
const MIN_SIZES: BufferSizes = BufferSizes { rx: 0, tx: 0 };

type Driver = NetDriver<FakeTransport, FakeMemory, FakeMirrored>;

/// A device model of a network device. Tests decide when frames arrive and leave.
struct Nic {
    model: SharedDevice,
}

impl Nic {
    /// Creates a device with these features and virtqueues of up to `queue_size` descriptors.
    fn new(features: u64, queue_size: u16) -> Self {
        let model = DeviceModel::new(1, features, &[queue_size, queue_size]);
        // MAC address, status, number of queue pairs, MTU.
        model.lock().unwrap().config = vec![2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 0xdc, 5];
        Self { model }
    }

    fn open(&self, sizes: BufferSizes) -> Result<Driver, InitError> {
        let dma = FakeDma::new(&self.model.lock().unwrap().memory, 2000);
        NetDriver::new(FakeTransport::new(&self.model, true), &dma, sizes)
    }

    /// Delivers a frame to the driver, with this header, in which `num_buffers` is filled in. Returns false
    /// if there are not enough buffers.
    fn deliver_with(&self, mut header: [u8; HEADER_SIZE], frame: &[u8]) -> bool {
        let mut model = self.model.lock().unwrap();
        let (mut chains, mut room) = (Vec::new(), 0);
        while room < HEADER_SIZE + frame.len() {
            let Some(chain) = model.take(0) else { return false };
            room += usize::try_from(chain.parts[0].1).unwrap();
            chains.push(chain);
        }
        header[10] = u8::try_from(chains.len()).unwrap();
        let bytes = [&header, frame].concat();
        let mut rest = bytes.as_slice();
        for chain in chains {
            let written = model.scatter(&chain, rest);
            rest = &rest[usize::try_from(written).unwrap()..];
            model.use_chain(0, chain.head, written);
        }
        true
    }

    fn deliver(&self, frame: &[u8]) -> bool {
        self.deliver_with([0; HEADER_SIZE], frame)
    }

    /// Takes the next chain of the transmit queue.
    fn take(&self) -> Option<TakenChain> {
        self.model.lock().unwrap().take(1)
    }

    /// Transmits a frame and marks its chain as used. Returns the frame's header and bytes.
    fn finish(&self, chain: &TakenChain) -> (Vec<u8>, Vec<u8>) {
        let mut model = self.model.lock().unwrap();
        let mut header = model.gather(chain);
        let frame = header.split_off(HEADER_SIZE);
        model.use_chain(1, chain.head, 0);
        (header, frame)
    }

    /// Transmits all available frames.
    fn transmit_all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        core::iter::from_fn(|| self.take().map(|chain| self.finish(&chain))).collect()
    }

    /// Numbers of notifications and interrupts of a virtqueue.
    fn counts(&self, queue: usize) -> (usize, usize) {
        let queue = self.model.lock().unwrap().queues[queue];
        (queue.notified, queue.interrupts)
    }
}

/// Creates a frame of `size` bytes whose contents depend on `mark`.
fn frame(size: usize, mark: usize) -> Vec<u8> {
    // Number of bytes after which the contents repeat. Miri takes seconds to make 60,000 bytes one by one.
    const PERIOD: usize = 7 * 251;
    let seven = |row: usize| [u8::try_from((row + mark * 31) % 251).unwrap(); 7];
    let rows: Vec<_> = (0..size.min(PERIOD).div_ceil(7)).map(seven).collect();
    let mut bytes = rows.into_flattened().repeat(size.div_ceil(PERIOD));
    bytes.truncate(size);
    bytes
}

/// Receives the next frame, and calls `read` with its contents.
fn receive_with<R>(
    net: &mut Driver,
    read: impl FnOnce(&[u8], RxInfo) -> R,
) -> Result<Option<R>, DeviceError> {
    let Some(mut frame) = net.take_frame()? else { return Ok(None) };
    let result = frame.with_bytes(read);
    net.release_frame(frame);
    Ok(result)
}

/// Receives the next frame.
fn receive(net: &mut Driver) -> Option<(Vec<u8>, RxInfo)> {
    receive_with(net, |frame, info| (frame.to_vec(), info)).unwrap()
}

/// Transmits a frame of `size` bytes. `fill` writes its contents.
fn transmit_with(
    net: &mut Driver,
    size: usize,
    offload: TxOffload,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), NetError> {
    let frame = net.reserve_frame(size, offload)?.fill(fill);
    net.submit_frame(frame);
    Ok(())
}

/// Transmits a frame.
fn transmit(net: &mut Driver, bytes: &[u8]) -> Result<(), NetError> {
    transmit_with(net, bytes.len(), TxOffload::default(), |buffer| buffer.copy_from_slice(bytes))
}
