//! Entry stubs of exceptions and interrupts.
//!
//! Each vector has a stub that pushes the vector's number, and a zero if the processor pushes no error code.
//! The common part saves the general-purpose registers, since kernel code uses no others, and calls
//! [`super::trap`].

use core::arch::naked_asm;

use super::trap::{self, TrapHandler};

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

/// The stub of each vector that is used: the exceptions, 16 interrupt lines from 32 on, the MSI vectors, the
/// timer and the inter-processor interrupts, and the spurious interrupt.
pub(super) const fn stubs<H: TrapHandler>() -> [(u8, unsafe extern "C" fn()); 51] {
    stubs! {
        stub: 0 1 2 3 4 5 6 7 9 16 18 19 20;
        stub_with_error_code: 8 10 11 12 13 14 17 21 29 30;
        stub: 51 52 53 54 55 56 57 58;
        stub: 64 65 66 255;
        stub: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47;
    }
}
