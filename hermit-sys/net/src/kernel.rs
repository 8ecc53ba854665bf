//! The kernel's functions as the stack's device and host.
#![expect(unsafe_code, reason = "the kernel passes functions")]

use core::ffi::c_void;
use core::slice;

use hermit_interface::net::{self, Device, Services};
use hermit_net_stack::{Hardware, HardwareInfo, Host, IpVersion, Offload, ReceivedInfo};

/// The device of the kernel.
#[derive(Debug)]
pub(crate) struct KernelDevice {
    services: &'static Services,
    info: HardwareInfo,
}

impl KernelDevice {
    /// The device, if there is one.
    pub(crate) fn new(services: &'static Services) -> Option<Self> {
        let mut device = Device::default();
        // SAFETY: the place is there.
        let is_there = unsafe { (services.device)(&raw mut device) };
        let limit = |most: u32| (most != 0).then_some(most);
        let info = HardwareInfo {
            mac: device.address,
            mtu: device.mtu,
            fills_checksums: device.completes_checksums,
            segments_v4: limit(device.segments_v4),
            segments_v6: limit(device.segments_v6),
        };
        is_there.then_some(Self { services, info })
    }
}

/// What is done with a frame, and what came of it.
struct Work<F, R> {
    action: Option<F>,
    result: Option<R>,
}

impl<F, R> Work<F, R> {
    const fn new(action: F) -> Self {
        Self { action: Some(action), result: None }
    }

    fn context(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

/// A [`net::Take`] of a closure.
unsafe extern "C" fn take<F: FnOnce(&[u8], ReceivedInfo) -> R, R>(
    context: *mut c_void,
    frame: *const u8,
    size: usize,
    is_checked: bool,
) {
    // SAFETY: `receive` passes its work, of this type, and waits for the end of the call.
    let work = unsafe { &mut *context.cast::<Work<F, R>>() };
    // SAFETY: the kernel passes a frame that stays as it is during the call.
    let frame = unsafe { slice::from_raw_parts(frame, size) };
    let info = ReceivedInfo { checksum_good: is_checked };
    work.result = work.action.take().map(|action| action(frame, info));
}

/// A [`net::Fill`] of a closure.
unsafe extern "C" fn fill<F: FnOnce(&mut [u8]) -> R, R>(context: *mut c_void, frame: *mut u8, size: usize) {
    // SAFETY: `transmit` passes its work, of this type, and waits for the end of the call.
    let work = unsafe { &mut *context.cast::<Work<F, R>>() };
    // SAFETY: the kernel passes initialised memory for a frame that is nobody else's during the call.
    let frame = unsafe { slice::from_raw_parts_mut(frame, size) };
    work.result = work.action.take().map(|action| action(frame));
}

/// A [`net::Take`] with the type of a closure that is passed for it.
const fn taking<F: FnOnce(&[u8], ReceivedInfo) -> R, R>(_: &Work<F, R>) -> net::Take {
    take::<F, R>
}

/// The same for a [`net::Fill`].
const fn filling<F: FnOnce(&mut [u8]) -> R, R>(_: &Work<F, R>) -> net::Fill {
    fill::<F, R>
}

impl Hardware for KernelDevice {
    fn info(&self) -> HardwareInfo {
        self.info
    }

    fn receive<R>(&mut self, action: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R> {
        let mut work = Work::new(action);
        let function = taking(&work);
        // SAFETY: the context is what the function takes.
        unsafe { (self.services.receive)(work.context(), function) };
        work.result
    }

    fn can_transmit(&mut self, size: usize) -> bool {
        // SAFETY: there is a device.
        unsafe { (self.services.can_transmit)(size) }
    }

    fn is_sending(&mut self) -> bool {
        // SAFETY: there is a device.
        unsafe { (self.services.is_sending)() }
    }

    fn transmit<R>(&mut self, size: usize, offload: Offload, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut work = Work::new(action);
        let function = filling(&work);
        let offload = translate(&offload);
        // SAFETY: the context is what the function takes.
        unsafe { (self.services.transmit)(size, &raw const offload, work.context(), function) };
        if let Some(action) = work.action.take() {
            // The device has refused the frame, which is lost as on any wire; but it must be written somewhere.
            return action(&mut alloc::vec![0; size]);
        }
        work.result.expect("who takes the closure leaves a result")
    }
}

fn translate(offload: &Offload) -> net::Offload {
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

/// The kernel around the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(pub(crate) &'static Services);

impl Kernel {
    /// Says something to whoever runs the machine.
    pub(crate) fn warn(&self, text: &str) {
        // SAFETY: the text stays during the call.
        unsafe { (self.0.warn)(text.as_ptr(), text.len()) }
    }
}

impl Host for Kernel {
    fn random(&mut self) -> u64 {
        // SAFETY: it takes nothing.
        unsafe { (self.0.random)() }
    }

    fn wake(&mut self, cookie: usize) {
        // SAFETY: any number is good.
        unsafe { (self.0.wake)(cookie) }
    }
}
