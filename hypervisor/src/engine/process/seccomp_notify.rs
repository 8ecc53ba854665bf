//! Ioctls of a seccomp listener (seccomp_unotify(2)).
#![expect(unsafe_code, reason = "ioctls take pointers")]

use std::os::fd::OwnedFd;

use libc::{seccomp_data, seccomp_notif, seccomp_notif_resp};
use rustix::io::Result;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// Group of the ioctls, and their opcodes (linux/seccomp.h): SECCOMP_IOCTL_NOTIF_RECV, _SEND and _SET_FLAGS.
const GROUP: u8 = b'!';
const RECV: Opcode = opcode::read_write::<seccomp_notif>(GROUP, 0);
const SEND: Opcode = opcode::read_write::<seccomp_notif_resp>(GROUP, 1);
const SET_FLAGS: Opcode = opcode::write::<u64>(GROUP, 4);

/// SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: tells the scheduler that the process that wakes the other one is about
/// to sleep.
const SYNC_WAKE_UP: usize = 1;

/// Result of a reported system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResponse {
    /// The call returns this value.
    Value(i64),
    /// The call fails with this errno.
    Error(i32),
}

/// Sleeps until a system call is reported, and returns it.
pub(super) fn receive(listener: &OwnedFd) -> Result<seccomp_notif> {
    let data = seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    let mut call = seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the opcode is that of SECCOMP_IOCTL_NOTIF_RECV, whose argument is a `struct seccomp_notif`, the
    // type given here; all its fields are integers, so whatever the kernel writes is valid.
    let request = unsafe { Updater::<RECV, _>::new(&mut call) };
    // SAFETY: the request borrows `call` mutably, so the kernel writes to memory that is valid and not
    // aliased. On another kind of descriptor the ioctl fails.
    unsafe { ioctl(listener, request) }?;
    Ok(call)
}

/// Completes the system call `id`.
pub(super) fn send(listener: &OwnedFd, id: u64, response: CallResponse) -> Result<()> {
    let (val, error) = match response {
        CallResponse::Value(value) => (value, 0),
        CallResponse::Error(error) => (0, -error),
    };
    let mut response = seccomp_notif_resp { id, val, error, flags: 0 };
    // SAFETY: the opcode is that of SECCOMP_IOCTL_NOTIF_SEND, whose argument is a `struct
    // seccomp_notif_resp`, the type given here; all its fields are integers.
    let request = unsafe { Updater::<SEND, _>::new(&mut response) };
    // SAFETY: the request borrows `response`, so the kernel accesses valid memory. On another kind of
    // descriptor the ioctl fails.
    unsafe { ioctl(listener, request) }
}

/// Asks the kernel to wake guest and hypervisor on the same CPU, because only one of them runs at a time. Has
/// no effect before Linux 6.6.
pub(super) fn set_sync_wake_up(listener: &OwnedFd) {
    // SAFETY: SECCOMP_IOCTL_NOTIF_SET_FLAGS takes its argument by value, although its opcode names a type, so
    // the integer is not used as an address.
    let request = unsafe { IntegerSetter::<SET_FLAGS>::new_usize(SYNC_WAKE_UP) };
    // SAFETY: the ioctl has no pointer argument, so it cannot access this process's memory.
    let _: Result<()> = unsafe { ioctl(listener, request) };
}
