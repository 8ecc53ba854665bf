//! The debug registers of a thread.

use std::mem::offset_of;
use std::ptr;

use nix::Result;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::engine::debug::{DebugControl, hits};

/// The numbers of the registers that say what has happened, and what is to happen.
const STATUS: usize = 6;
const CONTROL: usize = 7;

/// Where a register is in what the host's kernel shows of a thread.
fn place(number: usize) -> ptrace::AddressType {
    ptr::without_provenance_mut(offset_of!(libc::user, u_debugreg) + number * size_of::<u64>())
}

fn write(thread: Pid, number: usize, value: u64) -> Result<()> {
    ptrace::write_user(thread, place(number), value.cast_signed())
}

/// Has a stopped thread stop at these addresses, and at no others.
pub(super) fn set(thread: Pid, control: &DebugControl) -> Result<()> {
    // The host's kernel checks addresses that are in use.
    write(thread, CONTROL, 0)?;
    if control.hardware.iter().all(Option::is_none) {
        return Ok(());
    }
    for (number, address) in control.addresses().into_iter().enumerate() {
        write(thread, number, address)?;
    }
    write(thread, CONTROL, control.enabled())
}

/// Which addresses have come true since this was asked last.
pub(super) fn take_hits(thread: Pid) -> Result<u8> {
    let status = ptrace::read_user(thread, place(STATUS))?.cast_unsigned();
    write(thread, STATUS, 0)?;
    Ok(hits(status))
}
