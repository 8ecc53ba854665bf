//! Functions of the kernel that the stack calls.
#![expect(unsafe_code, reason = "the stack passes functions and pointers")]

use core::ffi::c_void;
use core::slice;

use hermit_interface::net::{DeviceInfo, FillFrame, Offload, ReceiveFrame, Services};

use super::{poll_leader, waker_keys};
use crate::{devices, entropy, report};

/// The function table.
pub(super) static SERVICES: Services =
    Services { device, receive, can_transmit, transmit, is_sending, random, wake, warn };

unsafe extern "C" fn device(description: *mut DeviceInfo) -> bool {
    let Some(device) = devices::network() else { return false };
    // SAFETY: `Services::device` requires a pointer valid for writes; the stack passes one to a local
    // variable.
    unsafe { description.write(device.describe()) };
    true
}

unsafe extern "C" fn receive(context: *mut c_void, take: ReceiveFrame) -> bool {
    let Some(device) = devices::network() else { return false };
    device.receive(|frame, is_checked| {
        // SAFETY: `take` and `context` are a pair that the stack passes to this call, and the frame is valid
        // until `take` returns.
        unsafe { take(context, frame.as_ptr(), frame.len(), is_checked) }
    })
}

unsafe extern "C" fn can_transmit(size: usize) -> bool {
    devices::network().is_some_and(|device| device.can_transmit(size))
}

unsafe extern "C" fn transmit(size: usize, offload: *const Offload, context: *mut c_void, fill: FillFrame) {
    let Some(device) = devices::network() else { return };
    // SAFETY: `Services::transmit` requires a valid pointer; the stack passes one to a local variable.
    let offload = unsafe { *offload };
    device.transmit(size, &offload, |frame| {
        // SAFETY: `fill` and `context` are a pair that the stack passes to this call, and the frame is
        // borrowed mutably until `fill` returns.
        unsafe { fill(context, frame.as_mut_ptr(), frame.len()) }
    });
}

unsafe extern "C" fn is_sending() -> bool {
    let is_sending = devices::network().is_some_and(|device| device.is_sending());
    if is_sending {
        poll_leader::hold();
    }
    is_sending
}

unsafe extern "C" fn random() -> u64 {
    let mut bytes = [0; 8];
    // This cannot fail, since the network does not start without a source of entropy.
    let _: Result<(), _> = entropy::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

unsafe extern "C" fn wake(waker_key: usize) {
    waker_keys::wake(waker_key);
}

unsafe extern "C" fn warn(text: *const u8, size: usize) {
    // SAFETY: `Services::warn` requires `size` readable bytes, which the stack borrows until the call
    // returns.
    let text = unsafe { slice::from_raw_parts(text, size) };
    let text = str::from_utf8(text).unwrap_or("?");
    report::warn(format_args!("network: {text}"));
}
