//! Context switch: from the stack of one thread to that of another.
//!
//! A suspended thread has its registers on its own stack, and its [`Context`] has the stack pointer. The
//! switch is a function call, so the compiler saves the registers that it still needs, and the assembly saves
//! only the few that a compiler cannot give up. The state of a context determines if a CPU may switch to it.
//! The last store of a switch sets it to suspended. From that store on, another CPU may run the thread.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ptr::{self, with_exposed_provenance_mut};
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

/// State of a context that runs on a CPU, or that a CPU is about to leave.
const RUNNING: u32 = 0;
/// State of a context to which a CPU may switch. It is a single bit, so that one instruction can clear it and
/// return the old value.
const SUSPENDED: u32 = 1;
/// State of a context without a thread: it has no stack.
const EMPTY: u32 = 2;

/// MXCSR and, from bit 32 on, the x87 control word of a new thread: the defaults of the System V ABI.
const FLOAT_CONTROL: u64 = 0x1f80 | 0x037f << 32;

/// Words that [`switch`] leaves on the stack: floating-point control words, two registers, the return
/// address. The stack pointer points at the second word. The first word is in the red zone of the suspended
/// thread, which nothing else uses.
const FRAME: [u64; 4] = [FLOAT_CONTROL, 0, 0, 0];

/// True if WRFSBASE is enabled: it needs no privilege, and is faster than writing the MSR.
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

    /// Marks an empty context as the context of the running thread.
    pub(crate) fn adopt(&self) {
        self.state.store(RUNNING, Relaxed);
    }

    /// Returns true if a CPU runs the thread, or is about to leave it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Acquire) == RUNNING
    }

    /// Returns true if the context is empty: its thread has not started, or has ended and left its stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.load(Acquire) == EMPTY
    }

    /// Prepares the context and the stack that ends at `top`, so that switching to this context calls
    /// `function`.
    ///
    /// # Safety
    ///
    /// The 4 KiB below `top` must be mapped, aligned to 16 bytes, and exclusively the caller's. The context
    /// must be empty, and no other CPU may prepare it meanwhile.
    pub(crate) unsafe fn prepare(&self, top: u64, thread_pointer: u64, function: extern "C" fn() -> !) {
        // The function is entered by a return instruction, and must find its stack as if it had been called.
        let start = top - size_of::<u64>() as u64 - size_of_val(&FRAME) as u64;
        let mut frame = FRAME;
        frame[FRAME.len() - 1] = (function as *const ()).addr() as u64;
        let slot = with_exposed_provenance_mut::<[u64; FRAME.len()]>(to_usize(start));
        // SAFETY: the frame ends 8 bytes below `top`, so it lies in the 4 KiB that are exclusively the
        // caller's (contract), and is aligned to eight bytes as `top` is.
        unsafe { slot.write(frame) };
        // SAFETY: the end of the frame is the last word below `top`, which lies in the same 4 KiB.
        let returns_to = unsafe { slot.add(1) };
        // SAFETY: the last word below `top` is mapped, aligned, and the caller's. It is the return address of
        // the function: null, as the function never returns; this also ends a backtrace.
        unsafe { returns_to.cast::<u64>().write(0) };
        self.stack_pointer.store(start + size_of::<u64>() as u64, Relaxed);
        self.thread_pointer.store(thread_pointer, Relaxed);
        self.state.store(SUSPENDED, Release);
    }

    /// Switches from the running thread, whose context this is, to another thread. Returns when a CPU
    /// switches back. Never returns with `ENDED`, which marks the context as empty.
    ///
    /// # Safety
    ///
    /// `self` must be the context of the thread that runs this on this CPU, and interrupts must be masked
    /// once.
    ///
    /// # Panics
    ///
    /// If `to` is not suspended.
    #[inline]
    pub(crate) unsafe fn switch<const ENDED: bool>(&self, to: &Self) {
        let before = to.state.fetch_and(!SUSPENDED, Acquire);
        assert!(before & SUSPENDED != 0, "switch to a thread that is not suspended");
        write_thread_pointer(to.thread_pointer.load(Relaxed));
        // SAFETY: `to` was suspended, so its stack is as `prepare` or `switch` left it. Clearing its bit made
        // this CPU the only one that runs it. `self` is the context of this thread (contract), so its fields
        // are free to be written. When the thread runs again, only the stack pointer and the two registers
        // that `switch` saves have their old values. All others are declared as changed: those that a
        // function may change, and four that are named. So the compiler saves them once, and only where it
        // needs them.
        unsafe {
            asm!(
                "call {switch}",
                switch = sym switch::<ENDED>,
                inout("rdi") ptr::from_ref(self) => _,
                inout("rsi") ptr::from_ref(to) => _,
                out("r12") _,
                out("r13") _,
                out("r14") _,
                out("r15") _,
                clobber_abi("C"),
            );
        }
    }
}

#[inline]
fn write_thread_pointer(address: u64) {
    // SAFETY: the instruction runs if the flag is set: then FSGSBASE is enabled (contract of `use_fsgsbase`).
    // The flag is an atomic byte, which is only read. The base is that of the thread that runs next; kernel
    // code between here and there has no thread-local variables.
    unsafe {
        asm!(
            "cmp byte ptr [rip + {fsgsbase}], 0",
            "je {disabled}",
            "wrfsbase {address}",
            fsgsbase = sym FSGSBASE,
            address = in(reg) address,
            disabled = label { FsBase::write(VirtAddr::new(address)) },
            options(nostack, readonly),
        );
    }
}

/// Instructions of `switch` that save and restore the floating-point control words (rounding, exception
/// masks), which the System V ABI makes callee-saved.
#[cfg(not(feature = "soft-float"))]
macro_rules! float_control {
    (save) => {
        "stmxcsr [rsp - 8]\nfnstcw [rsp - 4]"
    };
    (restore) => {
        "ldmxcsr [rsp - 8]\nfldcw [rsp - 4]"
    };
}

/// Soft-float programs do not set control words, and KVM's instruction emulator lacks some of these
/// instructions.
#[cfg(feature = "soft-float")]
macro_rules! float_control {
    ($step:ident) => {
        ""
    };
}

/// Saves the registers that inline assembly cannot declare as changed, and changes stacks. All other
/// registers are lost, including the vector registers, which are caller-saved in the System V ABI. The caller
/// declares this loss ([`Context::switch`]).
///
/// Stores the control words in the red zone. This is safe, since neither interrupts nor exceptions use the
/// stack that they interrupt.
#[unsafe(naked)]
unsafe extern "C" fn switch<const ENDED: bool>(from: *const Context, to: *const Context) {
    naked_asm!(
        "push rbp",
        "push rbx",
        float_control!(save),
        "mov [rdi + {stack_pointer}], rsp",
        "mov rsp, [rsi + {stack_pointer}]",
        // After this store, another CPU may run the suspended thread. x86 does not reorder stores with
        // earlier ones, so that CPU finds the saved registers.
        "mov dword ptr [rdi + {state}], {left}",
        float_control!(restore),
        "pop rbx",
        "pop rbp",
        "ret",
        stack_pointer = const offset_of!(Context, stack_pointer),
        state = const offset_of!(Context, state),
        left = const if ENDED { EMPTY } else { SUSPENDED },
    )
}
