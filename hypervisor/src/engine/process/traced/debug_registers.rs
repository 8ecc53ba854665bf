//! Debug registers of a traced thread.

use std::mem::offset_of;
use std::ptr;

use nix::Result;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::engine::debug::{DebugControl, dr6_hits};

/// Numbers of the debug status register (DR6) and the debug control register (DR7).
const DR6: usize = 6;
const DR7: usize = 7;

/// Offset of a debug register in `struct user`, as PTRACE_PEEKUSER and PTRACE_POKEUSER take it.
fn user_offset(number: usize) -> ptrace::AddressType {
    ptr::without_provenance_mut(offset_of!(libc::user, u_debugreg) + number * size_of::<u64>())
}

fn write(thread: Pid, number: usize, value: u64) -> Result<()> {
    ptrace::write_user(thread, user_offset(number), value.cast_signed())
}

/// Sets the hardware breakpoints of a stopped thread.
pub(super) fn set(thread: Pid, control: &DebugControl) -> Result<()> {
    // Disables all breakpoints first: the kernel checks a new address against the length of a breakpoint that
    // is enabled in DR7.
    write(thread, DR7, 0)?;
    if control.hardware.iter().all(Option::is_none) {
        return Ok(());
    }
    for (number, address) in control.addresses().into_iter().enumerate() {
        write(thread, number, address)?;
    }
    write(thread, DR7, control.dr7())
}

/// Returns a bit mask of the hardware breakpoints that were hit, and clears DR6.
pub(super) fn take_hits(thread: Pid) -> Result<u8> {
    let dr6 = ptrace::read_user(thread, user_offset(DR6))?.cast_unsigned();
    write(thread, DR6, 0)?;
    Ok(dr6_hits(dr6))
}
