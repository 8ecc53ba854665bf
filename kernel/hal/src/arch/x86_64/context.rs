//! Context switch: from the stack of one thread to that of another.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use hermit_interface::to_usize;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

/// The saved state of a thread that does not run.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    stack_pointer: AtomicU64,
    /// The FS base: the address of the thread's local variables.
    thread_pointer: AtomicU64,
    state: AtomicU32,
}

/// State of a context without a thread: it has no stack.
const EMPTY: u32 = 0;
/// State of a context that can be switched to.
const SUSPENDED: u32 = 1;
/// State of a context that a CPU runs, or is about to leave.
const RUNNING: u32 = 2;

/// MXCSR and, from bit 32 on, the x87 control word of a new thread: the defaults of the System V ABI.
const FLOAT_CONTROL: u64 = 0x1f80 | 0x037f << 32;

/// What [`switch`] leaves on the stack: floating-point control words, six registers, the return address.
const FRAME: [u64; 8] = [FLOAT_CONTROL, 0, 0, 0, 0, 0, 0, 0];

/// WRFSBASE is enabled: it takes no privilege, and is faster than writing the MSR.
static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Writes the FS base by WRFSBASE from now on.
///
/// # Safety
///
/// The operating system or the kernel must have enabled FSGSBASE on all CPUs.
pub(crate) unsafe fn use_fsgsbase() {
    FSGSBASE.store(true, Relaxed);
}

impl Context {
    /// An empty context.
    pub(crate) const fn new() -> Self {
        Self {
            stack_pointer: AtomicU64::new(0),
            thread_pointer: AtomicU64::new(0),
            state: AtomicU32::new(EMPTY),
        }
    }

    /// Marks an empty context as that of the thread that runs.
    pub(crate) fn adopt(&self) {
        self.state.store(RUNNING, Relaxed);
    }

    /// Whether a CPU runs the thread, or is about to leave it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Acquire) == RUNNING
    }

    /// Whether the context is empty: its thread has not started, or has ended and left its stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Acquire) == EMPTY
    }

    /// Prepares the stack that ends at `top` so that switching to it calls `function`.
    ///
    /// # Safety
    ///
    /// The 4 KiB below `top` must be mapped, aligned to 16 bytes, and exclusively the caller's. The context must be
    /// empty, and no other CPU may prepare it meanwhile.
    pub(crate) unsafe fn prepare(&self, top: u64, thread_pointer: u64, function: extern "C" fn() -> !) {
        // The function is entered by a return instruction, and must find its stack as if it had been called.
        let start = top - size_of::<u64>() as u64 - size_of_val(&FRAME) as u64;
        let mut frame = FRAME;
        frame[FRAME.len() - 1] = (function as *const ()).addr() as u64;
        let slot = with_exposed_provenance_mut::<[u64; FRAME.len()]>(to_usize(start));
        // SAFETY: the frame ends 8 bytes below `top`, so it lies in the 4 KiB that are exclusively the caller's
        // (contract), and is aligned to eight bytes as `top` is.
        unsafe { slot.write(frame) };
        // SAFETY: the end of the frame is the last word below `top`, which lies in the same 4 KiB.
        let returns_to = unsafe { slot.add(1) };
        // SAFETY: the last word below `top` is mapped, aligned, and the caller's. It is the return address of the
        // function: null, as the function never returns; this also ends a backtrace.
        unsafe { returns_to.cast::<u64>().write(0) };
        self.stack_pointer.store(start, Relaxed);
        self.thread_pointer.store(thread_pointer, Relaxed);
        self.state.store(SUSPENDED, Release);
    }

    /// Switches from the running thread, whose context this is, to another one. Returns when a CPU switches back:
    /// never, if the thread has `ended`.
    ///
    /// # Safety
    ///
    /// `self` must be the context of the thread that runs this on this CPU, and interrupts must be masked once.
    ///
    /// # Panics
    ///
    /// If `to` is not suspended.
    #[inline]
    pub(crate) unsafe fn switch(&self, to: &Self, ended: bool) {
        let before = to.state.swap(RUNNING, Acquire);
        assert!(before == SUSPENDED, "switch to a thread that is not suspended");
        write_thread_pointer(to.thread_pointer.load(Relaxed));
        let state = if ended { EMPTY } else { SUSPENDED };
        // SAFETY: `to` was suspended, so its stack is as `prepare` or `switch` left it. The swap made this CPU the
        // only one that runs it. `self` is the context of this thread (contract), so its fields are free to be
        // written.
        unsafe { switch(self, to, state) };
    }
}

#[inline]
fn write_thread_pointer(address: u64) {
    if FSGSBASE.load(Relaxed) {
        // SAFETY: FSGSBASE is enabled (contract of `use_fsgsbase`). The base is that of the thread that runs next;
        // kernel code between here and there has no thread-local variables.
        unsafe { asm!("wrfsbase {}", in(reg) address, options(nostack, preserves_flags, nomem)) };
    } else {
        FsBase::write(VirtAddr::new(address));
    }
}

/// Instructions of `switch` that save and restore the floating-point control words (rounding, exception masks),
/// which the System V ABI makes callee-saved.
#[cfg(not(feature = "soft-float"))]
macro_rules! float_control {
    (save) => {
        "stmxcsr [rsp]\nfnstcw [rsp + 4]"
    };
    (restore) => {
        "ldmxcsr [rsp]\nfldcw [rsp + 4]"
    };
}

/// Soft-float programs do not set control words, and KVM's instruction emulator lacks some of these instructions.
#[cfg(feature = "soft-float")]
macro_rules! float_control {
    ($step:ident) => {
        ""
    };
}

/// Saves the callee-saved registers and changes stacks. The vector registers need no saving: they are caller-saved
/// in the System V ABI, and this is a function.
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
        // From this store on another CPU may run the thread that was left. Stores of x86 are not reordered with
        // earlier ones.
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
