//! Entry stubs of exceptions and interrupts.
//!
//! Each vector has a stub that pushes its number (and a zero where the processor pushes no error code); the
//! common part saves the general-purpose registers, which are all that kernel code uses, and calls [`super::trap`].

use core::arch::naked_asm;

use super::trap::{self, TrapHandler};

/// The registers of interrupted code, as they lie on the stack while [`trap::handle`] runs, from the lowest address
/// on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TrapFrame {
    pub(crate) r15: u64,
    pub(crate) r14: u64,
    pub(crate) r13: u64,
    pub(crate) r12: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rbp: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) rbx: u64,
    pub(crate) rax: u64,
    pub(crate) vector: u64,
    pub(crate) error: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

impl TrapFrame {
    /// Address of the instruction at which the code was interrupted.
    #[must_use]
    pub const fn instruction_pointer(&self) -> u64 {
        self.rip
    }

    /// The stack pointer.
    #[must_use]
    pub const fn stack_pointer(&self) -> u64 {
        self.rsp
    }

    /// The frame pointer, from which a backtrace starts.
    #[must_use]
    pub const fn frame_pointer(&self) -> u64 {
        self.rbp
    }

    /// Number of the exception or interrupt.
    #[must_use]
    pub const fn vector(&self) -> u64 {
        self.vector
    }

    /// Error code of the exception; 0 if it has none.
    #[must_use]
    pub const fn error_code(&self) -> u64 {
        self.error
    }

    /// Names and values of the general-purpose registers, as a table of four columns.
    #[must_use]
    pub const fn registers(&self) -> [[(&'static str, u64); 4]; 4] {
        [
            [("rax", self.rax), ("rbx", self.rbx), ("rcx", self.rcx), ("rdx", self.rdx)],
            [("rsi", self.rsi), ("rdi", self.rdi), ("rbp", self.rbp), ("rsp", self.rsp)],
            [("r8 ", self.r8), ("r9 ", self.r9), ("r10", self.r10), ("r11", self.r11)],
            [("r12", self.r12), ("r13", self.r13), ("r14", self.r14), ("r15", self.r15)],
        ]
    }

    /// Makes the interrupted code continue at another address; returns the one at which it would have continued.
    pub(crate) const fn redirect(&mut self, address: u64) -> u64 {
        core::mem::replace(&mut self.rip, address)
    }
}

/// Saves the registers, calls [`trap::handle`], restores them and returns to the interrupted code.
#[unsafe(naked)]
unsafe extern "C" fn common<H: TrapHandler>() {
    naked_asm!(
        "cld",
        "push rax",
        "push rbx",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rbp",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rdi, rsp",
        "mov rbp, rsp",
        // The C ABI wants the stack aligned; the frame has 22 words below a 16-byte boundary.
        "and rsp, -16",
        "call {handle}",
        "mov rsp, rbp",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rbp",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        "pop rax",
        "add rsp, 16",
        "iretq",
        handle = sym trap::handle::<H>,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn stub<H: TrapHandler, const VECTOR: u8>() {
    naked_asm!("push 0", "push {vector}", "jmp {common}", vector = const VECTOR, common = sym common::<H>)
}

#[unsafe(naked)]
unsafe extern "C" fn stub_with_error_code<H: TrapHandler, const VECTOR: u8>() {
    naked_asm!("push {vector}", "jmp {common}", vector = const VECTOR, common = sym common::<H>)
}

macro_rules! stubs {
    ($($stub:ident: $($vector:literal)*;)*) => {
        [$($(($vector, $stub::<H, $vector> as unsafe extern "C" fn())),*),*]
    };
}

/// The stub of each vector that is used: the exceptions, 16 interrupt lines from 32 on, the MSI vectors, the timer
/// and the inter-processor interrupts, and the spurious interrupt.
pub(super) fn stubs<H: TrapHandler>() -> [(u8, unsafe extern "C" fn()); 51] {
    stubs! {
        stub: 0 1 2 3 4 5 6 7 9 16 18 19 20;
        stub_with_error_code: 8 10 11 12 13 14 17 21 29 30;
        stub: 51 52 53 54 55 56 57 58;
        stub: 64 65 66 255;
        stub: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47;
    }
}
