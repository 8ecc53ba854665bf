//! Start of the guest's process: clone(2) and execveat(2) of its bootstrap program.
#![expect(unsafe_code, reason = "between clone and exec only async-signal-safe code may run")]

use std::ffi::CStr;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;

use hermit_interface::process::SharedCpu;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use vm_memory::{GuestAddress, GuestMemoryBackend};
use vmm_sys_util::eventfd::EventFd;

use super::error::{ProcessError, syscall_failed};
use crate::memory::Memory;

/// Size in bytes of the child's stack until execveat.
const STACK_SIZE: usize = 32 << 10;

/// Program and resources of a new process.
#[derive(Debug)]
pub(super) struct SpawnConfig<'a> {
    /// Open file with the program.
    pub(super) program: &'a OwnedFd,
    /// Offset in the program at which the process writes its ID.
    pub(super) pid_offset: u64,
    /// Descriptors that the process inherits, each with its number in the new process. The numbers must
    /// differ from those of all descriptors in this list, and from that of `program`.
    pub(super) descriptors: &'a [(OwnedFd, u32)],
    /// The VM's memory, into which the kernel writes the ID of the process's first thread, the boot CPU.
    pub(super) memory: &'a Memory,
    /// True if the process becomes the first one of a new PID namespace. This requires `CAP_SYS_ADMIN`. The
    /// new process does not keep the capability: execveat drops it unless the user is root.
    pub(super) has_pid_namespace: bool,
}

/// Argument of the child, which shares this process's memory until execveat.
struct ChildArgument<'a> {
    config: &'a SpawnConfig<'a>,
    /// System call that failed in the child, and its error.
    failure: Option<(&'static str, io::Error)>,
}

/// Starts a process and returns its pidfd. The process has no environment variables and no descriptors except
/// the given ones, and blocks all signals. It stays in the process group of uhyve, so that a terminal's
/// SIGTSTP stops both.
pub(super) fn spawn(config: &SpawnConfig<'_>) -> Result<OwnedFd, ProcessError> {
    let mut stack = vec![0_u128; STACK_SIZE / 16];
    let thread_id = GuestAddress(offset_of!(SharedCpu, thread) as u64);
    let thread_id = config.memory.guest().get_host_address(thread_id);
    let thread_id = thread_id.map_err(io::Error::other).map_err(syscall_failed("clone"))?;
    let mut argument = ChildArgument { config, failure: None };
    let mut pidfd: RawFd = -1;
    let old = block_signals();
    // Like vfork(2): this thread is suspended until the child calls execveat or exits.
    let flags =
        libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::CLONE_CHILD_SETTID | libc::SIGCHLD;
    let flags = if config.has_pid_namespace { flags | libc::CLONE_NEWPID } else { flags };
    // SAFETY: the child runs on `stack`, which is its own, 16-byte aligned and large enough for
    // `become_program` and its system calls. `CLONE_VFORK` suspends this thread until the child has left this
    // address space, so `stack`, `argument` and everything that they borrow outlive the child's use of them,
    // and parent and child never access `argument` at the same time. Signals are blocked, so no handler runs
    // in the child. The kernel writes the thread ID to a field of guest memory, which is mapped, and the
    // pidfd to a local variable; nothing else accesses either during the call.
    let result = unsafe {
        libc::clone(
            child,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut argument).cast(),
            &raw mut pidfd,
            ptr::null_mut::<libc::c_void>(),
            thread_id.cast::<libc::pid_t>(),
        )
    };
    let error = io::Error::last_os_error();
    restore_signals(&old);
    if result < 0 {
        return Err(syscall_failed("clone")(error));
    }
    // SAFETY: clone(2) succeeded, so `CLONE_PIDFD` has stored a new descriptor, which nothing else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    match argument.failure {
        None => Ok(pidfd),
        Some((call, source)) => {
            // The child has exited without a program. Reap it here.
            let _: rustix::io::Result<_> = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            Err(ProcessError::Syscall { call, source })
        }
    }
}

/// Entry point of the child.
extern "C" fn child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes a pointer to its local `ChildArgument` to clone(2), which hands it to this
    // function once. The parent is suspended until this process exits or calls execveat, so the reference is
    // valid and not aliased.
    let argument = unsafe { &mut *argument.cast::<ChildArgument<'_>>() };
    let call = become_program(argument.config);
    argument.failure = Some((call, io::Error::last_os_error()));
    1
}

/// Executes the program. Returns only after a failure: the name of the system call that failed.
fn become_program(config: &SpawnConfig<'_>) -> &'static str {
    // SAFETY: close_range(2) takes integers only, and with CLOSE_RANGE_CLOEXEC it closes no descriptor that
    // is in use.
    let prepared =
        unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if prepared < 0 {
        return "close_range";
    }
    // dup2(2) clears close-on-exec, so only these descriptors stay open.
    for (descriptor, number) in config.descriptors {
        // SAFETY: without CLONE_FILES the table of descriptors is a copy, so dup2(2) closes no descriptor of
        // the parent.
        if unsafe { libc::dup2(descriptor.as_raw_fd(), number.cast_signed()) } < 0 {
            return "dup2";
        }
    }
    let program = config.program.as_raw_fd();
    // SAFETY: getpid(2) takes no arguments and always succeeds.
    let pid = unsafe { libc::getpid() }.to_le_bytes();
    // SAFETY: pointer and length describe the local array `pid`, which the call only reads.
    let written =
        unsafe { libc::pwrite64(program, pid.as_ptr().cast(), pid.len(), config.pid_offset.cast_signed()) };
    if written < 0 {
        return "pwrite64";
    }
    let empty: &CStr = c"";
    let arguments = [c"uhyve-guest".as_ptr(), ptr::null()];
    let environment = [ptr::null::<libc::c_char>()];
    // SAFETY: the strings are NUL-terminated constants, and the two arrays end with a null pointer and live
    // until the call has replaced this process's program or failed.
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

/// Converts an eventfd into its descriptor.
pub(super) fn into_fd(event: EventFd) -> OwnedFd {
    // SAFETY: `into_raw_fd` gives up the ownership of an open descriptor, which `OwnedFd` takes over.
    unsafe { OwnedFd::from_raw_fd(event.into_raw_fd()) }
}

/// Blocks all signals in this thread, and returns the previous signal mask.
fn block_signals() -> libc::sigset_t {
    // SAFETY: `sigset_t` is an array of integers, for which zero is a valid value.
    let mut all = unsafe { std::mem::zeroed() };
    let mut old = all;
    // SAFETY: the pointer is to a local `sigset_t`, which the function overwrites.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both pointers are to local variables of type `sigset_t`; the function reads the first and
    // writes the second.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) };
    old
}

fn restore_signals(old: &libc::sigset_t) {
    // SAFETY: `old` is a reference, so it points to a valid `sigset_t`, which the function only reads; the
    // null pointer asks for no previous mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, ptr::null_mut()) };
}
