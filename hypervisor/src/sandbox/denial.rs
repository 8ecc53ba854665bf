//! What happens when a thread makes a system call that its role does not allow.
#![expect(unsafe_code, reason = "a signal handler gets pointers, and must end the process at once")]

use std::cell::Cell;
use std::io::{self, Write};

use syscalls::Sysno;
use vmm_sys_util::signal::register_signal_handler;

use super::Role;

/// The process's exit code then: that of a process which SIGSYS has killed, in a shell's numbers.
pub const EXIT_CODE: u8 = 159;

/// `si_code` of a signal that a filter has sent (seccomp(2)).
const BY_FILTER: libc::c_int = 1;

/// More than the longest message.
const MESSAGE: usize = 256;

thread_local! {
    // Constant, and without a destructor: it is there for a signal handler, too.
    static ROLE: Cell<Option<Role>> = const { Cell::new(None) };
}

/// Has every denied system call reported, in all threads.
pub(super) fn report() -> io::Result<()> {
    register_signal_handler(libc::SIGSYS, handle).map_err(io::Error::from)
}

/// From now on the calling thread is reported by this name.
pub(super) fn set_role(role: Role) {
    ROLE.set(Some(role));
}

/// Whether the calling thread has a role.
pub(super) fn has_role() -> bool {
    ROLE.get().is_some()
}

/// Handles SIGSYS. Only async-signal-safe functions are used (signal-safety(7)): formatting numbers into a buffer, write(2)
/// and _exit(2), which every role may call.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler that was registered with SA_SIGINFO a valid one.
    let code = unsafe { (*info).si_code };
    // Anybody may send the signal; only a filter says why.
    if code == BY_FILTER {
        // SAFETY: as above; for this flag's handlers the last argument is of this type.
        let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        write_message(&registers);
    }
    // SAFETY: it ends the process without running anything else of it.
    unsafe { libc::_exit(EXIT_CODE.into()) }
}

/// The registers are those with which the system call was made.
fn write_message(registers: &[libc::greg_t]) {
    let register = |index: libc::c_int| {
        usize::try_from(index).ok().and_then(|index| registers.get(index)).copied().unwrap_or_default()
    };
    let number = register(libc::REG_RAX);
    let name = usize::try_from(number).ok().and_then(Sysno::new).map_or("a system call", |call| call.name());
    let role = ROLE.get().map_or("without a role", Role::name);
    let mut message = [0; MESSAGE];
    let mut room = message.as_mut_slice();
    let _: io::Result<()> = writeln!(
        room,
        "uhyve: the sandbox denied {name} in thread {role} (number {number}, arguments {:#x}, {:#x}, {:#x})",
        register(libc::REG_RDI),
        register(libc::REG_RSI),
        register(libc::REG_RDX),
    );
    let left = room.len();
    // Where nobody reads it there is nobody to tell.
    let _: rustix::io::Result<usize> =
        rustix::io::write(io::stderr(), message.get(..MESSAGE - left).unwrap_or_default());
}
