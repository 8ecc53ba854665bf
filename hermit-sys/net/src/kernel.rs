//! The kernel's table of functions as the stack's network device and host.
#![expect(unsafe_code, reason = "the kernel passes raw pointers to functions")]

use core::ffi::c_void;
use core::slice;

use hermit_interface::net::{self, DeviceInfo, Services};
use hermit_net_stack::{Host, IpVersion, NetDevice, NetDeviceInfo, Offload, Random, ReceivedInfo, Stack};

/// The network stack of this machine.
pub(crate) type NetworkStack = Stack<KernelDevice, Kernel>;

/// The network device that the kernel drives.
#[derive(Debug)]
pub(crate) struct KernelDevice {
    services: &'static Services,
    info: NetDeviceInfo,
}

impl KernelDevice {
    /// Returns the device, if the machine has one.
    pub(crate) fn new(services: &'static Services) -> Option<Self> {
        let mut device = DeviceInfo::default();
        // SAFETY: the pointer is to a local variable, which is valid for the write of the description.
        let is_present = unsafe { (services.device)(&raw mut device) };
        let limit = |max_size: u32| (max_size != 0).then_some(max_size);
        let info = NetDeviceInfo {
            mac: device.address,
            mtu: device.mtu,
            fills_checksums: device.completes_checksums,
            segments_v4: limit(device.segments_v4),
            segments_v6: limit(device.segments_v6),
        };
        is_present.then_some(Self { services, info })
    }
}

/// A closure that the kernel calls back with a frame, and its result.
struct Callback<F, R> {
    action: Option<F>,
    result: Option<R>,
}

impl<F, R> Callback<F, R> {
    const fn new(action: F) -> Self {
        Self { action: Some(action), result: None }
    }

    /// Returns the context pointer that the kernel passes to [`take`] or [`fill`].
    fn context(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

/// The [`net::ReceiveFrame`] function of a closure. Its context is a `Callback<F, R>`.
unsafe extern "C" fn take<F: FnOnce(&[u8], ReceivedInfo) -> R, R>(
    context: *mut c_void,
    frame: *const u8,
    size: usize,
    is_checked: bool,
) {
    // SAFETY: the kernel passes the context that `receive` has given it together with this function: a
    // callback of these types, on the stack of `receive`, which is waiting for the kernel and does not access
    // it.
    let callback = unsafe { &mut *context.cast::<Callback<F, R>>() };
    // SAFETY: the contract of `ReceiveFrame`: the frame is valid and does not change during the call.
    let frame = unsafe { slice::from_raw_parts(frame, size) };
    let info = ReceivedInfo { checksum_good: is_checked };
    callback.result = callback.action.take().map(|action| action(frame, info));
}

/// The [`net::FillFrame`] function of a closure. Its context is a `Callback<F, R>`.
unsafe extern "C" fn fill<F: FnOnce(&mut [u8]) -> R, R>(context: *mut c_void, frame: *mut u8, size: usize) {
    // SAFETY: the kernel passes the context that `transmit` has given it together with this function: a
    // callback of these types, on the stack of `transmit`, which is waiting for the kernel and does not
    // access it.
    let callback = unsafe { &mut *context.cast::<Callback<F, R>>() };
    // SAFETY: the contract of `FillFrame`: the memory is initialised, and no other code accesses it during
    // the call.
    let frame = unsafe { slice::from_raw_parts_mut(frame, size) };
    callback.result = callback.action.take().map(|action| action(frame));
}

/// [`take`] with the types of a callback, which cannot be written out.
const fn take_for<F: FnOnce(&[u8], ReceivedInfo) -> R, R>(_: &Callback<F, R>) -> net::ReceiveFrame {
    take::<F, R>
}

/// [`fill`] with the types of a callback, which cannot be written out.
const fn fill_for<F: FnOnce(&mut [u8]) -> R, R>(_: &Callback<F, R>) -> net::FillFrame {
    fill::<F, R>
}

impl NetDevice for KernelDevice {
    fn info(&self) -> NetDeviceInfo {
        self.info
    }

    fn receive<R>(&mut self, action: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R> {
        let mut callback = Callback::new(action);
        let function = take_for(&callback);
        // SAFETY: the context is the callback of the types for which `function` is made, and outlives the
        // call.
        unsafe { (self.services.receive)(callback.context(), function) };
        callback.result
    }

    fn can_transmit(&mut self, size: usize) -> bool {
        // SAFETY: the function takes any size. The kernel has a device: otherwise there would be no
        // `KernelDevice`.
        unsafe { (self.services.can_transmit)(size) }
    }

    fn is_sending(&mut self) -> bool {
        // SAFETY: the function takes nothing. The kernel has a device: otherwise there would be no
        // `KernelDevice`.
        unsafe { (self.services.is_sending)() }
    }

    fn transmit(&mut self, size: usize, offload: Offload, action: impl FnOnce(&mut [u8])) {
        let mut callback = Callback::new(action);
        let function = fill_for(&callback);
        let offload = to_kernel(&offload);
        // SAFETY: the context is the callback of the types for which `function` is made; it and the offload
        // outlive the call.
        unsafe { (self.services.transmit)(size, &raw const offload, callback.context(), function) };
    }
}

fn to_kernel(offload: &Offload) -> net::Offload {
    let checksum = offload.checksum.map(|checksum| (checksum.start, checksum.offset));
    let (checksum_start, checksum_offset) = checksum.unwrap_or_default();
    let mut result = net::Offload { checksum_start, checksum_offset, ..net::Offload::default() };
    if let Some(segment) = offload.segment {
        result.segment_size = segment.size;
        result.header_size = segment.header_size;
        result.family = if segment.version == IpVersion::V4 { net::V4 } else { net::V6 };
    }
    result
}

/// The kernel as the stack's host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(pub(crate) &'static Services);

impl Kernel {
    /// Prints a warning on the console.
    pub(crate) fn warn(&self, text: &str) {
        // SAFETY: pointer and length are those of a string, which is borrowed during the call.
        unsafe { (self.0.warn)(text.as_ptr(), text.len()) }
    }
}

impl Random for Kernel {
    fn random(&mut self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.0.random)() }
    }
}

impl Host for Kernel {
    fn wake(&mut self, waker_key: usize) {
        // SAFETY: the function takes any number; the kernel ignores waker keys that it has not given out.
        unsafe { (self.0.wake)(waker_key) }
    }
}
