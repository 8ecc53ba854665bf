//! Where the processor enters the kernel on exceptions and interrupts.
//!
//! Each vector has a stub that pushes its number (and a zero where the processor pushes no error code); the
//! common part saves the general registers, which are all that kernel code uses, and calls [`super::trap`].

use core::arch::naked_asm;

/// What lies on the stack while [`super::trap::handle`] runs, from the lowest address on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the registers' own names")]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rbp: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rax: u64,
    pub vector: u64,
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Saves the registers, calls the handler, restores them and returns to the interrupted code.
#[unsafe(naked)]
unsafe extern "C" fn common() {
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
        handle = sym super::trap::handle,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn stub<const VECTOR: u8>() {
    naked_asm!("push 0", "push {vector}", "jmp {common}", vector = const VECTOR, common = sym common)
}

#[unsafe(naked)]
unsafe extern "C" fn stub_with_error_code<const VECTOR: u8>() {
    naked_asm!("push {vector}", "jmp {common}", vector = const VECTOR, common = sym common)
}

macro_rules! stubs {
    ($($stub:ident: $($vector:literal)*;)*) => {
        [$($(($vector, $stub::<$vector> as unsafe extern "C" fn())),*),*]
    };
}

/// The stub of each vector that is used: the exceptions, 16 interrupt lines from 32 on, the lines of messages
/// ([`crate::interrupts::MESSAGES`]), what CPUs tell each other, and the spurious interrupt.
pub(super) fn stubs() -> [(u8, unsafe extern "C" fn()); 51] {
    stubs! {
        stub: 0 1 2 3 4 5 6 7 9 16 18 19 20;
        stub_with_error_code: 8 10 11 12 13 14 17 21 29 30;
        stub: 51 52 53 54 55 56 57 58;
        stub: 64 65 66 255;
        stub: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47;
    }
}
