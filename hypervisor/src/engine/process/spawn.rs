//! A new process, up to its program.
#![expect(unsafe_code, reason = "between clone and exec nothing but system calls may be made")]

use std::ffi::CStr;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;

use hermit_interface::process::Cpu;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use vm_memory::{GuestAddress, GuestMemoryBackend};
use vmm_sys_util::eventfd::EventFd;

use super::{ProcessError, refused};
use crate::memory::Memory;

/// Bytes of the stack until the program runs.
const STACK: usize = 32 << 10;

/// What a process has as its own.
#[derive(Debug)]
pub(super) struct Birth<'a> {
    /// An open file with its program.
    pub(super) program: &'a OwnedFd,
    /// Where in the program its identifier is to be written.
    pub(super) process: u64,
    /// Its descriptors, each with the number that it shall have. None of the numbers is that of a descriptor here.
    pub(super) descriptors: &'a [(OwnedFd, u32)],
    /// The machine's memory: the first processor is the process's first thread.
    pub(super) memory: &'a Memory,
}

/// What the process does before its program, and what came of it. It shares this process's memory, which waits.
struct Work<'a> {
    birth: &'a Birth<'a>,
    failure: Option<(&'static str, io::Error)>,
}

/// A process with that program and nothing else: no environment, no descriptors but those, all signals blocked. It stays in this
/// process's group, so that a terminal stops both. Returns its descriptor.
pub(super) fn spawn(birth: &Birth<'_>) -> Result<OwnedFd, ProcessError> {
    let mut stack = vec![0_u128; STACK / 16];
    let thread = GuestAddress(offset_of!(Cpu, thread) as u64);
    let thread =
        birth.memory.guest().get_host_address(thread).map_err(io::Error::other).map_err(refused("clone"))?;
    let mut work = Work { birth, failure: None };
    let mut process: RawFd = -1;
    let old = block_signals();
    // As vfork(2): this thread goes on when the program runs or the process has ended.
    let flags =
        libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::CLONE_CHILD_SETTID | libc::SIGCHLD;
    // SAFETY: the function runs on a stack of its own, and its argument lives until this thread goes on. What both use is
    // written by one of them at a time, since this thread waits. The host's kernel writes the identifier into the
    // machine's memory, which nobody else uses yet.
    let result = unsafe {
        libc::clone(
            child,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut work).cast(),
            &raw mut process,
            ptr::null_mut::<libc::c_void>(),
            thread.cast::<libc::pid_t>(),
        )
    };
    let error = io::Error::last_os_error();
    restore_signals(&old);
    if result < 0 {
        return Err(refused("clone")(error));
    }
    // SAFETY: clone(2) has just made the descriptor for us.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    match work.failure {
        None => Ok(process),
        Some((call, source)) => {
            // It has ended.
            let _: rustix::io::Result<_> = waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
            Err(ProcessError::Refused { call, source })
        }
    }
}

/// The new process. A handler of signals must not run in it, since it shares memory with this one.
extern "C" fn child(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: it is the argument of clone above, which nobody else uses meanwhile.
    let work = unsafe { &mut *work.cast::<Work<'_>>() };
    let call = become_program(work.birth);
    work.failure = Some((call, io::Error::last_os_error()));
    1
}

/// Returns only if it fails, with the name of the call that did.
fn become_program(birth: &Birth<'_>) -> &'static str {
    // SAFETY: the call takes numbers only.
    let prepared =
        unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if prepared < 0 {
        return "close_range";
    }
    for (descriptor, number) in birth.descriptors {
        // SAFETY: the new descriptor is this process's alone, whose table of descriptors is a copy.
        if unsafe { libc::dup2(descriptor.as_raw_fd(), number.cast_signed()) } < 0 {
            return "dup2";
        }
    }
    let program = birth.program.as_raw_fd();
    // SAFETY: the call takes no pointers.
    let own = unsafe { libc::getpid() }.to_le_bytes();
    // SAFETY: the bytes are there, and so many.
    let written =
        unsafe { libc::pwrite64(program, own.as_ptr().cast(), own.len(), birth.process.cast_signed()) };
    if written < 0 {
        return "pwrite64";
    }
    let empty: &CStr = c"";
    let arguments = [c"uhyve-guest".as_ptr(), ptr::null()];
    let environment = [ptr::null::<libc::c_char>()];
    // SAFETY: strings and lists end with a null, and are there until the program runs.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program,
            empty.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    "execveat"
}

/// An event as nothing but a descriptor.
pub(super) fn owned(event: EventFd) -> OwnedFd {
    // SAFETY: the event is no more, and the descriptor was its own.
    unsafe { OwnedFd::from_raw_fd(event.into_raw_fd()) }
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: a set of signals is plain numbers.
    let mut all = unsafe { std::mem::zeroed() };
    let mut old = all;
    // SAFETY: the pointer is to a set of signals.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both pointers are to sets of signals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) };
    old
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: the pointer is to a set of signals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut()) };
}
