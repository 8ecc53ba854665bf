//! Signals, which have the role of exceptions and interrupts in a process.
//!
//! Each thread handles signals on an alternate stack, which is the exception stack of its CPU. Linux saves
//! all registers there and restores them, including floating-point registers.

use core::arch::naked_asm;

use hermit_interface::process::{DEVICE, INTERRUPT, TIMER};

use super::linux::{self, Sigaction, SignalStack};
use super::{Process, cpus};
use crate::arch::local;
use crate::arch::stacks::{INTERRUPT_SIZE, InterruptStack, StackTops};
use crate::arch::trap::{self, Exception, TrapFrame, TrapHandler as _};
use crate::fault::{self, Fault, FaultKind};
use crate::interrupts;
use crate::ops::CpuControl as _;
use crate::stop;
use crate::traps::Traps;

/// Signals of exceptions: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const EXCEPTIONS: [u32; 5] = [4, 5, SIGBUS, 8, 11];

/// Signals of interrupts.
const INTERRUPTS: [u32; 3] = [INTERRUPT, DEVICE, TIMER];

/// `SA_SIGINFO`, `SA_ONSTACK`, `SA_RESTORER`: handlers take three arguments, run on the alternate stack, and
/// return to [`restore`].
const FLAGS: u64 = 0x4 | 0x0800_0000 | 0x0400_0000;

/// `SA_NODEFER`: the signal is not blocked in its handler, so that an exception of a handler is reported.
const NO_DEFER: u64 = 0x4000_0000;

/// Largest `si_code` of a signal that a process has sent (`SI_USER`).
const MAX_SENT_CODE: i32 = 0;

/// Offset of the vectors that stand for signals from other processes: a report shows this plus the signal's
/// number as the vector. No processor has such vectors.
const SENT_SIGNAL: u64 = 256;

/// Signal of a page fault at an address for which the host has no memory.
const SIGBUS: u32 = 7;

/// The beginning of `siginfo_t`.
#[derive(Debug)]
#[repr(C)]
struct Siginfo {
    signal: u32,
    error: u32,
    code: i32,
}

/// The beginning of `ucontext_t` (`arch/x86/include/uapi/asm/sigcontext.h`).
#[derive(Debug)]
#[repr(C)]
struct Ucontext {
    flags: u64,
    link: u64,
    stack: SignalStack,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
    rflags: u64,
    segments: [u16; 4],
    error: u64,
    vector: u64,
    old_mask: u64,
    address: u64,
}

/// Signature of signal handlers.
type SignalHandler = extern "C" fn(u32, &Siginfo, &mut Ucontext);

impl Ucontext {
    /// The interrupted registers.
    fn frame(&self) -> TrapFrame {
        let [cs, _, _, ss] = self.segments;
        TrapFrame {
            r15: self.r15,
            r14: self.r14,
            r13: self.r13,
            r12: self.r12,
            r11: self.r11,
            r10: self.r10,
            r9: self.r9,
            r8: self.r8,
            rbp: self.rbp,
            rdi: self.rdi,
            rsi: self.rsi,
            rdx: self.rdx,
            rcx: self.rcx,
            rbx: self.rbx,
            rax: self.rax,
            vector: self.vector,
            error: self.error,
            rip: self.rip,
            cs: cs.into(),
            rflags: self.rflags,
            rsp: self.rsp,
            ss: ss.into(),
        }
    }
}

/// The bit of a signal in a signal set.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The bits of [`INTERRUPTS`].
const INTERRUPT_BITS: u64 = bit(INTERRUPT) | bit(DEVICE) | bit(TIMER);

/// Installs the signal handlers for all threads. Returns false if Linux refuses.
pub(super) fn handle() -> bool {
    let restorer = (restore as *const ()).addr() as u64;
    let action = |handler: SignalHandler, flags| Sigaction {
        handler: (handler as *const ()).addr() as u64,
        flags,
        restorer,
        blocked: INTERRUPT_BITS,
    };
    let exception = action(exception, FLAGS | NO_DEFER);
    let interrupt = action(interrupt, FLAGS);
    let actions = EXCEPTIONS.map(|signal| (signal, &exception));
    actions.into_iter().chain(INTERRUPTS.map(|signal| (signal, &interrupt))).all(|(signal, action)| {
        // SAFETY: a handler runs on the alternate stack and Linux restores the interrupted registers, so it
        // may run between any two instructions. It shares only the CPU-local atomics with the code that it
        // interrupts, as an interrupt does.
        unsafe { linux::set_action(signal, action) }.is_ok()
    })
}

/// Makes the exception stack of this CPU the alternate stack of the calling thread. Returns false if Linux
/// refuses.
pub(super) fn use_stack(stacks: StackTops) -> bool {
    let top = stacks[InterruptStack::Fault as usize];
    let stack = SignalStack { start: top - INTERRUPT_SIZE as u64, flags: 0, size: INTERRUPT_SIZE as u64 };
    // SAFETY: the stack belongs to the CPU, which is this thread; and since no IDT refers to it here, nothing
    // else uses it.
    unsafe { linux::set_stack(&stack) }.is_ok()
}

/// Unblocks the signals of interrupts. Unblocks the signal of devices only on the first CPU.
pub(super) fn unblock_interrupts() {
    let device = if local::number() == 0 { bit(DEVICE) } else { 0 };
    linux::unblock(bit(INTERRUPT) | bit(TIMER) | device);
}

/// Handles the signal of an exception.
extern "C" fn exception(signal: u32, info: &Siginfo, context: &mut Ucontext) {
    let mut frame = context.frame();
    if info.code <= MAX_SENT_CODE {
        frame.vector = SENT_SIGNAL + u64::from(signal);
    }
    match trap::decode(&mut frame, context.address) {
        Exception::Page { address, .. } if signal == SIGBUS => {
            interrupts::enter_exception();
            fault::report(&Fault { kind: FaultKind::NoHostMemory(address), frame });
        }
        exception => Traps::exception(exception, &mut frame),
    }
    context.rip = frame.rip;
    context.rflags = frame.rflags;
}

/// Handles the signal of an interrupt.
extern "C" fn interrupt(signal: u32, _info: &Siginfo, context: &mut Ucontext) {
    let mut lines = cpus::take_raised(local::number());
    if stop::is_stopped() {
        Process.stop();
    }
    if signal == TIMER {
        lines |= 1 << interrupts::TIMER;
    }
    let mut frame = context.frame();
    interrupts::raised_lines(lines, &mut frame);
    context.rip = frame.rip;
}

/// Returns from a handler (`rt_sigreturn`).
#[unsafe(naked)]
unsafe extern "C" fn restore() -> ! {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}
