//! Reports of denied system calls.
#![expect(unsafe_code, reason = "a signal handler gets pointers, and must end the process at once")]

use std::cell::Cell;
use std::io::{self, Write};

use syscalls::Sysno;
use vmm_sys_util::signal::register_signal_handler;

use super::Role;
use crate::host::log;
use crate::report;

/// Exit code after a denied system call: the code by which a shell reports that SIGSYS has killed a process.
pub const EXIT_CODE: u8 = 159;

/// `si_code` of a SIGSYS from a seccomp filter (seccomp(2)).
const SYS_SECCOMP: libc::c_int = 1;

/// Maximum size of a message in bytes.
const MAX_MESSAGE: usize = 256;

thread_local! {
    // `const` and without a destructor: access never initialises or allocates, so a signal handler can use it
    // at any time.
    static ROLE: Cell<Option<Role>> = const { Cell::new(None) };
}

/// Installs the handler of SIGSYS for all threads.
pub(super) fn install_handler() -> io::Result<()> {
    register_signal_handler(libc::SIGSYS, handle).map_err(io::Error::from)
}

/// Sets the role of the calling thread for reports.
pub(super) fn set_role(role: Role) {
    ROLE.set(Some(role));
}

/// Returns true if the calling thread has a role, that is, if it is confined.
pub(super) fn has_role() -> bool {
    ROLE.get().is_some()
}

/// Handler of SIGSYS. It is async-signal-safe (signal-safety(7)): it formats integers into a buffer on the
/// stack, writes the message and the report of the run with write(2), and calls _exit(2). Every role may make
/// these calls.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `register_signal_handler` sets SA_SIGINFO, so the kernel passes a pointer to a valid
    // `siginfo_t`, which exists until the handler returns.
    let code = unsafe { (*info).si_code };
    // Another process may also have sent the signal. Then there is no system call to report.
    if code == SYS_SECCOMP {
        // SAFETY: with SA_SIGINFO the last argument points to a valid `ucontext_t` (sigaction(2)), which
        // exists until the handler returns; the registers are copied.
        let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        write_message(&registers);
    }
    report::write_end_at_once(EXIT_CODE);
    // SAFETY: _exit(2) takes an integer, is async-signal-safe and does not return: it runs no destructors and
    // no other code of this process, whose state the signal may have interrupted at any point.
    unsafe { libc::_exit(EXIT_CODE.into()) }
}

/// Prints a report about the system call. `registers` are the thread's registers at the call.
fn write_message(registers: &[libc::greg_t]) {
    let register = |index: libc::c_int| {
        usize::try_from(index).ok().and_then(|index| registers.get(index)).copied().unwrap_or_default()
    };
    let number = register(libc::REG_RAX);
    let name = usize::try_from(number).ok().and_then(Sysno::new).map_or("a system call", |call| call.name());
    let role = ROLE.get().map_or("without a role", Role::name);
    let mut message = [0; MAX_MESSAGE];
    let mut unused = message.as_mut_slice();
    let _: io::Result<()> = writeln!(
        unused,
        "uhyve: the sandbox denied {name} in thread {role} (number {number}, arguments {:#x}, {:#x}, {:#x})",
        register(libc::REG_RDI),
        register(libc::REG_RSI),
        register(libc::REG_RDX),
    );
    let left = unused.len();
    // Fails if standard error is closed.
    let _: rustix::io::Result<usize> =
        rustix::io::write(log::descriptor(), message.get(..MAX_MESSAGE - left).unwrap_or_default());
}
