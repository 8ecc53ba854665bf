//! Signals: what exceptions and interrupts are to a process.
//!
//! Each thread handles them on a stack of its own, the one that exceptions have on other machines. Linux saves all registers there
//! and restores them, floating point included.

use core::arch::naked_asm;

use hermit_interface::process::{DEVICE, INTERRUPT, TIMER};

use super::{Process, cpus, linux};
use crate::arch::local;
use crate::arch::processor::StackTops;
use crate::arch::stacks::{INTERRUPT_SIZE, InterruptStack};
use crate::arch::trap::{self, Frame};
use crate::platform::Platform as _;
use crate::{fault, interrupts};

/// The signals that mean an exception: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const EXCEPTIONS: [u32; 5] = [4, 5, 7, 8, 11];

/// The signals that mean an interrupt.
const INTERRUPTS: [u32; 3] = [INTERRUPT, DEVICE, TIMER];

/// How a handler is called: with three arguments, on the alternate stack, returning to [`restore`].
const FLAGS: u64 = 0x4 | 0x0800_0000 | 0x0400_0000;

/// The signal itself is not blocked meanwhile: a fault of a handler is to be noticed.
const NOT_BLOCKED: u64 = 0x4000_0000;

/// `si_code` is not greater if a process has sent the signal.
const FROM_OUTSIDE: i32 = 0;

/// The exception that a signal from outside is taken for, plus its number: no processor has it.
const SENT: u64 = 256;

/// SIGBUS: the host has no memory for an address, if it is a page fault.
const NO_MEMORY: u32 = 7;

/// `struct sigaction` of the system call.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    blocked: u64,
}

/// `stack_t`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct AlternateStack {
    start: u64,
    flags: u64,
    size: u64,
}

/// `siginfo_t`, the beginning.
#[derive(Debug)]
#[repr(C)]
struct Info {
    signal: u32,
    error: u32,
    code: i32,
}

/// `ucontext_t`, the beginning (`arch/x86/include/uapi/asm/sigcontext.h`).
#[derive(Debug)]
#[repr(C)]
struct Context {
    flags: u64,
    link: u64,
    stack: AlternateStack,
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

/// How Linux calls handlers.
type Handler = extern "C" fn(u32, &Info, &mut Context);

impl Context {
    fn frame(&self) -> Frame {
        let [cs, _, _, ss] = self.segments;
        Frame {
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

/// The bit of a signal in a set.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The bits of [`INTERRUPTS`].
const INTERRUPT_BITS: u64 = bit(INTERRUPT) | bit(DEVICE) | bit(TIMER);

/// Says what happens on signals, in all threads; `false` if Linux refuses.
pub(super) fn handle() -> bool {
    let restorer = (restore as *const ()).addr() as u64;
    let action = |handler: Handler, flags| Action {
        handler: (handler as *const ()).addr() as u64,
        flags,
        restorer,
        blocked: INTERRUPT_BITS,
    };
    let exception = action(exception, FLAGS | NOT_BLOCKED);
    let interrupt = action(interrupt, FLAGS);
    let actions = EXCEPTIONS.map(|signal| (signal, &exception));
    actions.into_iter().chain(INTERRUPTS.map(|signal| (signal, &interrupt))).all(|(signal, action)| {
        // SAFETY: the handlers do what those of exceptions and interrupts do on other machines; Linux keeps the registers of
        // what they interrupt.
        unsafe { linux::set_action(signal, action) }.is_ok()
    })
}

/// Has this CPU handle signals on its own stack.
pub(super) fn use_stack(stacks: StackTops) -> bool {
    let top = stacks[InterruptStack::Fault as usize];
    let stack = AlternateStack { start: top - INTERRUPT_SIZE as u64, flags: 0, size: INTERRUPT_SIZE as u64 };
    // SAFETY: the stack is the CPU's, and exceptions have no other use for it here.
    unsafe { linux::set_stack(&stack) }.is_ok()
}

/// Lets interrupts in; those of devices only on the first CPU.
pub(super) fn let_in(cpu: u32) {
    let device = if cpu == 0 { bit(DEVICE) } else { 0 };
    linux::unblock(bit(INTERRUPT) | bit(TIMER) | device);
}

/// Handles an exception.
extern "C" fn exception(signal: u32, info: &Info, context: &mut Context) {
    let mut frame = context.frame();
    interrupts::enter_exception();
    if info.code <= FROM_OUTSIDE {
        frame.vector = SENT + u64::from(signal);
    }
    trap::exception(&mut frame, context.address, signal == NO_MEMORY);
    interrupts::leave_exception(&mut frame);
    context.rip = frame.rip;
    context.rflags = frame.rflags;
}

/// Handles an interrupt.
extern "C" fn interrupt(signal: u32, _info: &Info, context: &mut Context) {
    let mut lines = cpus::take_raised(local::number());
    if fault::is_stopped() {
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
