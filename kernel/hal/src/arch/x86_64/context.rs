//! Switching between stacks, and with them between threads.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use hermit_interface::to_usize;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

/// Where a thread stands while it does not run.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    stack_pointer: AtomicU64,
    /// The base of thread-local variables.
    thread_pointer: AtomicU64,
    state: AtomicU32,
}

/// It has no stack.
const EMPTY: u32 = 0;
/// It can be switched to.
const SUSPENDED: u32 = 1;
/// A CPU runs it, or is about to leave it.
const RUNNING: u32 = 2;

/// What a new thread finds in MXCSR and in the x87 control word: the defaults of the System V ABI.
const FLOAT_CONTROL: u64 = 0x1f80 | 0x037f << 32;

/// What `switch` leaves on the stack: floating-point control, six registers, the return address.
const FRAME: [u64; 8] = [FLOAT_CONTROL, 0, 0, 0, 0, 0, 0, 0];

/// FS base can be written without privilege, which is also faster.
static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Says that the processor has the instruction.
pub(crate) fn use_fsgsbase() {
    FSGSBASE.store(true, Relaxed);
}

impl Context {
    /// Nobody's.
    pub(crate) const fn new() -> Self {
        Self {
            stack_pointer: AtomicU64::new(0),
            thread_pointer: AtomicU64::new(0),
            state: AtomicU32::new(EMPTY),
        }
    }

    /// Makes it that of the thread that runs.
    pub(crate) fn adopt(&self) {
        self.state.store(RUNNING, Relaxed);
    }

    /// Whether a CPU runs it, or is about to leave it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Acquire) == RUNNING
    }

    /// Whether it is nobody's: a thread has not begun, or has ended and left its stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Acquire) == EMPTY
    }

    /// Prepares the stack that ends at `top` so that switching to it calls `function`.
    ///
    /// # Safety
    ///
    /// The 4 KiB below `top` must be mapped and nobody else's, and the context must be empty, with nobody else preparing
    /// it.
    pub(crate) unsafe fn prepare(&self, top: u64, thread_pointer: u64, function: extern "C" fn() -> !) {
        // The function is entered by a return, and finds its stack as if it had been called.
        let start = top - size_of::<u64>() as u64 - size_of_val(&FRAME) as u64;
        let mut frame = FRAME;
        frame[FRAME.len() - 1] = (function as *const ()).addr() as u64;
        let place = with_exposed_provenance_mut::<[u64; FRAME.len()]>(to_usize(start));
        // SAFETY: within the caller's page, and aligned to eight bytes.
        unsafe { place.write(frame) };
        // SAFETY: the last word of the caller's page.
        let returns_to = unsafe { place.add(1) };
        // SAFETY: as above. The function returns nowhere, which also ends a backtrace.
        unsafe { returns_to.cast::<u64>().write(0) };
        self.stack_pointer.store(start, Relaxed);
        self.thread_pointer.store(thread_pointer, Relaxed);
        self.state.store(SUSPENDED, Release);
    }

    /// Leaves the running thread, whose context this is, for another one. Returns when somebody switches back, which is
    /// never if the thread is `over`.
    ///
    /// # Safety
    ///
    /// `self` must be the context of the thread that runs this on this CPU, and interrupts must be masked once.
    ///
    /// # Panics
    ///
    /// If `to` is not suspended.
    #[inline]
    pub(crate) unsafe fn switch(&self, to: &Self, over: bool) {
        let before = to.state.swap(RUNNING, Acquire);
        assert!(before == SUSPENDED, "switch to a thread that is not suspended");
        write_thread_pointer(to.thread_pointer.load(Relaxed));
        let state = if over { EMPTY } else { SUSPENDED };
        // SAFETY: `to` was suspended, so its stack is as `prepare` or `switch` left it, and is ours alone now.
        unsafe { switch(self, to, state) };
    }
}

#[inline]
fn write_thread_pointer(address: u64) {
    if FSGSBASE.load(Relaxed) {
        // SAFETY: the processor has the instruction, and the base is that of the thread that runs next; kernel code does
        // not use it.
        unsafe { asm!("wrfsbase {}", in(reg) address, options(nostack, preserves_flags, nomem)) };
    } else {
        FsBase::write(VirtAddr::new(address));
    }
}

/// Instructions of `switch` that save and restore how the thread wants its floating-point numbers rounded.
#[cfg(not(feature = "soft-float"))]
macro_rules! float_control {
    (save) => {
        "stmxcsr [rsp]\nfnstcw [rsp + 4]"
    };
    (restore) => {
        "ldmxcsr [rsp]\nfldcw [rsp + 4]"
    };
}

/// No program sets it, and KVM's emulator knows only one of those instructions.
#[cfg(feature = "soft-float")]
macro_rules! float_control {
    ($step:ident) => {
        ""
    };
}

/// Saves what a function must preserve, and changes stacks. The vector registers need no saving: the C ABI lets any
/// function change them, and this is one.
#[unsafe(naked)]
unsafe extern "C" fn switch(from: *const Context, to: *const Context, state: u32) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        float_control!(save),
        "mov [rdi + {stack_pointer}], rsp",
        "mov rsp, [rsi + {stack_pointer}]",
        // From here on another CPU may run the thread that was left.
        "mov [rdi + {state}], edx",
        float_control!(restore),
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        stack_pointer = const offset_of!(Context, stack_pointer),
        state = const offset_of!(Context, state),
    )
}
