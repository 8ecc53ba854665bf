//! System calls that are handed to this process (seccomp_unotify(2)).
#![expect(unsafe_code, reason = "requests to the host's kernel with pointers")]

use std::os::fd::OwnedFd;

use libc::{seccomp_data, seccomp_notif, seccomp_notif_resp};
use rustix::io::Result;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// The group of the requests (linux/seccomp.h).
const GROUP: u8 = b'!';
const RECEIVE: Opcode = opcode::read_write::<seccomp_notif>(GROUP, 0);
const SEND: Opcode = opcode::read_write::<seccomp_notif_resp>(GROUP, 1);
const SET_FLAGS: Opcode = opcode::write::<u64>(GROUP, 4);

/// The two processes mostly take turns: the one that wakes the other is about to sleep.
const SYNC_WAKE_UP: usize = 1;

/// What a system call gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The host carries it out.
    Continue,
    /// This value.
    Value(i64),
    /// This error.
    Error(i32),
}

/// The next system call that waits. Sleeps if there is none.
pub(super) fn receive(listener: &OwnedFd) -> Result<seccomp_notif> {
    let data = seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    let mut call = seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the request's number says the type, which is plain numbers.
    let request = unsafe { Updater::<RECEIVE, _>::new(&mut call) };
    // SAFETY: the request writes the structure above.
    unsafe { ioctl(listener, request) }?;
    Ok(call)
}

/// Answers a system call.
pub(super) fn send(listener: &OwnedFd, id: u64, answer: Answer) -> Result<()> {
    let (val, error, flags) = match answer {
        Answer::Continue => (0, 0, 1),
        Answer::Value(value) => (value, 0, 0),
        Answer::Error(error) => (0, -error, 0),
    };
    let mut response = seccomp_notif_resp { id, val, error, flags };
    // SAFETY: the request's number says the type, which is plain numbers.
    let request = unsafe { Updater::<SEND, _>::new(&mut response) };
    // SAFETY: the request reads the structure above.
    unsafe { ioctl(listener, request) }
}

/// Has both processes woken up on the same CPU, if the host's kernel can (Linux 6.6).
pub(super) fn take_turns(listener: &OwnedFd) {
    // SAFETY: the request takes this number by value, whatever type its own number says.
    let request = unsafe { IntegerSetter::<SET_FLAGS>::new_usize(SYNC_WAKE_UP) };
    // SAFETY: as above.
    let _: Result<()> = unsafe { ioctl(listener, request) };
}
