//! ptrace(2) requests that nix does not offer for every C library. They use the system call directly, because
//! the C libraries declare the function ptrace differently.
#![expect(unsafe_code, reason = "nix lacks these ptrace requests")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_long, iovec, siginfo_t, user_fpregs_struct};
use linux_raw_sys::elf_uapi::NT_PRFPREG;
use linux_raw_sys::ptrace::{
    PTRACE_GETREGSET, PTRACE_GETSIGMASK, PTRACE_PEEKSIGINFO, PTRACE_SETREGSET, PTRACE_SETSIGMASK,
    ptrace_peeksiginfo_args,
};
use nix::Result;
use nix::errno::Errno;
use nix::unistd::Pid;

/// Size of a signal set in bytes.
const SET_SIZE: usize = size_of::<u64>();

/// Makes the request `number`.
///
/// # Safety
///
/// `address` and `data` must be valid arguments of the request (ptrace(2)). If they are pointers, they must
/// be valid for the accesses that the request makes.
unsafe fn request<T>(number: u32, thread: Pid, address: *const c_void, data: *mut T) -> Result<c_long> {
    // SAFETY: the caller guarantees that the arguments are valid for the request, and that the kernel may
    // access the memory that they point to. Apart from that, no request here changes this process.
    Errno::result(unsafe { libc::syscall(libc::SYS_ptrace, number, thread.as_raw(), address, data) })
}

/// Reads the signal mask of a stopped thread.
pub(super) fn mask(thread: Pid) -> Result<u64> {
    let mut signals = 0_u64;
    let size = ptr::without_provenance(SET_SIZE);
    // SAFETY: PTRACE_GETSIGMASK takes the set's size in place of an address, and writes that many bytes to
    // the last argument, a local variable of that size.
    unsafe { request(PTRACE_GETSIGMASK, thread, size, &raw mut signals) }.map(|_| signals)
}

/// Writes the signal mask of a stopped thread.
pub(super) fn set_mask(thread: Pid, mut signals: u64) -> Result<()> {
    let size = ptr::without_provenance(SET_SIZE);
    // SAFETY: PTRACE_SETSIGMASK takes the set's size in place of an address, and reads that many bytes from
    // the last argument, a local variable of that size.
    unsafe { request(PTRACE_SETSIGMASK, thread, size, &raw mut signals) }.map(drop)
}

/// Returns the number of the pending signal at `index` of a stopped thread; `None` after the last one.
pub(super) fn pending_signal(thread: Pid, index: u64) -> Result<Option<i32>> {
    let which = ptrace_peeksiginfo_args { off: index, flags: 0, nr: 1 };
    let mut found = MaybeUninit::<siginfo_t>::uninit();
    // SAFETY: PTRACE_PEEKSIGINFO reads its arguments from the local `which`, and writes at most `which.nr`,
    // that is one, `siginfo_t` to the local `found`.
    let count =
        unsafe { request(PTRACE_PEEKSIGINFO, thread, (&raw const which).cast(), found.as_mut_ptr()) }?;
    if count == 0 {
        return Ok(None);
    }
    // SAFETY: the request returns the number of entries that it has written. The result was neither an error
    // nor 0, so it has written the entry.
    Ok(Some(unsafe { found.assume_init() }.si_signo))
}

/// Reads the floating-point registers of a stopped thread.
pub(super) fn fpu_registers(thread: Pid) -> Result<user_fpregs_struct> {
    let mut registers = MaybeUninit::<user_fpregs_struct>::zeroed();
    transfer(PTRACE_GETREGSET, thread, &mut registers)?;
    // SAFETY: all fields are integers, for which zero is valid, and the kernel overwrites them by integers.
    Ok(unsafe { registers.assume_init() })
}

/// Writes the floating-point registers of a stopped thread.
pub(super) fn set_fpu_registers(thread: Pid, registers: user_fpregs_struct) -> Result<()> {
    transfer(PTRACE_SETREGSET, thread, &mut MaybeUninit::new(registers))
}

/// Makes a request for the set of floating-point registers.
fn transfer(number: u32, thread: Pid, registers: &mut MaybeUninit<user_fpregs_struct>) -> Result<()> {
    let mut part = iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(registers) };
    let set = ptr::without_provenance(NT_PRFPREG as usize);
    // SAFETY: the requests that this function is called with take the set's number in place of an address and
    // an `iovec`, here a local variable. They access at most the bytes that it describes, which `registers`
    // borrows exclusively.
    unsafe { request(number, thread, set, &raw mut part) }.map(drop)
}
