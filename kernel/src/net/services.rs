//! What the stack calls of the kernel.
#![expect(unsafe_code, reason = "the stack passes functions and pointers")]

use core::ffi::c_void;
use core::slice;

use hermit_interface::net::{DeviceInfo, FillFrame, Offload, ReceiveFrame, Services};

use super::cookies;
use crate::{devices, entropy, report};

/// The table.
pub(super) static SERVICES: Services =
    Services { device, receive, can_transmit, transmit, is_sending, random, wake, warn };

unsafe extern "C" fn device(description: *mut DeviceInfo) -> bool {
    let Some(device) = devices::network() else { return false };
    // SAFETY: the stack passes a place for it.
    unsafe { description.write(device.describe()) };
    true
}

unsafe extern "C" fn receive(context: *mut c_void, take: ReceiveFrame) -> bool {
    let Some(device) = devices::network() else { return false };
    device.receive(|frame, is_checked| {
        // SAFETY: the function takes this context, and the frame stays during the call.
        unsafe { take(context, frame.as_ptr(), frame.len(), is_checked) }
    })
}

unsafe extern "C" fn can_transmit(size: usize) -> bool {
    devices::network().is_some_and(|device| device.can_transmit(size))
}

unsafe extern "C" fn transmit(size: usize, offload: *const Offload, context: *mut c_void, fill: FillFrame) {
    let Some(device) = devices::network() else { return };
    // SAFETY: the stack passes a value.
    let offload = unsafe { *offload };
    device.transmit(size, &offload, |frame| {
        // SAFETY: the function takes this context, and the frame is nobody else's during the call.
        unsafe { fill(context, frame.as_mut_ptr(), frame.len()) }
    });
}

unsafe extern "C" fn is_sending() -> bool {
    devices::network().is_some_and(|device| device.is_sending())
}

unsafe extern "C" fn random() -> u64 {
    let mut bytes = [0; 8];
    // The network does not start without a source.
    let _: Result<(), _> = entropy::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

unsafe extern "C" fn wake(cookie: usize) {
    cookies::wake(cookie);
}

unsafe extern "C" fn warn(text: *const u8, size: usize) {
    // SAFETY: the stack passes text that stays during the call.
    let text = unsafe { slice::from_raw_parts(text, size) };
    let text = str::from_utf8(text).unwrap_or("?");
    report::warn(format_args!("network: {text}"));
}
