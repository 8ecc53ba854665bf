//! Faults of a defective or hostile program.
//!
//! An action that returns did not fault, which is the failure here. The accesses are written in assembly: in
//! Rust they would be undefined behaviour, which the compiler may turn into anything.

#![expect(unsafe_code, reason = "faults need invalid memory accesses")]

use std::arch::asm;
use std::hint::black_box;
use std::process;

use crate::ActionResult;

/// More memory than any test machine has: 100 GiB.
const TOO_MUCH: usize = 100 << 30;

/// An address at which nothing is mapped, for a stack pointer.
const UNMAPPED_STACK: usize = 0x5000;

/// Size of a page in bytes.
const PAGE: usize = 4096;

/// Distance in bytes from the used part of a stack to a page that is touched before those above it.
const HOLE_DEPTH: usize = 1 << 20;

/// Constant data, which must be mapped read-only.
static CONSTANT: [u8; 32] = *b"constant data, never to change..";

/// Panics.
pub(crate) fn panic() -> ActionResult {
    panic!("a panic, as asked for");
}

/// Aborts.
pub(crate) fn abort() -> ActionResult {
    process::abort();
}

/// Writes through a null pointer.
pub(crate) fn null() -> ActionResult {
    // SAFETY: nothing is mapped at address 0, so the write faults before it has any effect.
    unsafe { store(0) };
    survived()
}

/// Reads through a null pointer.
pub(crate) fn null_read() -> ActionResult {
    // SAFETY: nothing is mapped at address 0, so the read faults.
    unsafe { asm!("mov {value:r}, [{address}]", value = out(reg) _, address = in(reg) 0_usize) };
    survived()
}

/// Divides by zero with a `div` instruction; Rust's division would panic first.
pub(crate) fn divide() -> ActionResult {
    // SAFETY: dividing by 0 faults (#DE) before any register changes; all operands are declared.
    unsafe { asm!("div {zero:e}", zero = in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _) };
    survived()
}

/// Sets the trap flag (TF) for a moment, without a debugger: on this kernel that is no fault, unlike on
/// Linux.
pub(crate) fn step() -> ActionResult {
    // SAFETY: the pushed flags are popped; the debug trap (#DB) follows the instruction after `popfq`, and
    // its handler resumes.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop", "nop") };
    Ok("ok")
}

/// Executes `ud2`, which is defined to be invalid.
pub(crate) fn illegal() -> ActionResult {
    // SAFETY: the instruction has no effect but the fault (#UD).
    unsafe { asm!("ud2") };
    survived()
}

/// Executes `ud2` with a frame pointer to the last word of a page of the stack above which a page was never
/// touched. The report's backtrace must not read that one: it runs on the stack of exceptions, where it must
/// cause none.
pub(crate) fn stack_hole() -> ActionResult {
    let here = 0_u8;
    // Below what the stack has used, and above the guard page: the main thread's stack has 8 MiB.
    let page = ((&raw const here).addr() - HOLE_DEPTH) & !(PAGE - 1);
    // SAFETY: the page belongs to this thread's stack, below its red zone, so it can be read; that maps the
    // page and lower ones. Then the instruction faults (#UD).
    unsafe {
        asm!(
            "cmp byte ptr [{page}], 0",
            "lea rbp, [{page} + {last_word}]",
            "ud2",
            page = in(reg) page,
            last_word = const PAGE - 8,
            options(noreturn),
        )
    };
}

/// Recurses until the stack overflows.
pub(crate) fn recursion() -> ActionResult {
    fn descend(depth: u64) -> u64 {
        let frame = black_box([depth; 64]);
        if frame[0] == u64::MAX {
            return 0;
        }
        descend(depth + 1) + black_box(&frame)[63]
    }
    black_box(descend(0));
    survived()
}

/// Pushes onto an unmapped stack.
pub(crate) fn nowhere_stack() -> ActionResult {
    // SAFETY: nothing is mapped there, so the push faults; there is no way back.
    unsafe {
        asm!("mov rsp, {nowhere}", "push rax", "ud2", nowhere = const UNMAPPED_STACK, options(noreturn))
    };
}

/// Keeps an unmapped stack pointer for a while without using it, and then pushes.
pub(crate) fn nowhere_stack_later() -> ActionResult {
    // SAFETY: nothing is mapped there, so the push faults; there is no way back.
    unsafe {
        asm!(
            "mov rsp, {nowhere}",
            "2: dec {turns}",
            "jnz 2b",
            "push rax",
            "ud2",
            nowhere = const UNMAPPED_STACK,
            turns = in(reg) 500_000_000_u64,
            options(noreturn),
        );
    }
}

/// Allocates more memory than there is, infallibly.
pub(crate) fn allocate() -> ActionResult {
    black_box(Vec::<u8>::with_capacity(black_box(TOO_MUCH)));
    survived()
}

/// Allocates more memory than there is, fallibly; an error is the right result.
pub(crate) fn try_allocate() -> ActionResult {
    match black_box(Vec::<u8>::new()).try_reserve(black_box(TOO_MUCH)) {
        Ok(()) => Err("100 GiB were granted".to_owned()),
        Err(_) => Ok("refused"),
    }
}

/// Writes to the program's code.
pub(crate) fn write_code() -> ActionResult {
    let code = black_box(write_code as fn() -> ActionResult as *const ());
    // SAFETY: code is mapped without permission to write, so the write faults before it has any effect.
    unsafe { store(code.addr()) };
    survived()
}

/// Writes to constant data.
pub(crate) fn write_rodata() -> ActionResult {
    let constant = black_box(CONSTANT.as_ptr());
    // SAFETY: constants are mapped without permission to write, so the write faults before it has any effect.
    unsafe { store(constant.addr()) };
    survived()
}

/// Calls into the heap, at an address that contains a `ret` instruction.
pub(crate) fn execute_data() -> ActionResult {
    const RETURN: u8 = 0xc3;
    let data = black_box(vec![RETURN; 64]);
    // SAFETY: the heap is mapped without permission to execute, so the call faults; if it did not, it would
    // return with nothing changed.
    unsafe { asm!("call {address}", address = in(reg) data.as_ptr(), clobber_abi("C")) };
    drop(black_box(data));
    survived()
}

/// Writes eight bytes at an address.
///
/// # Safety
///
/// The write must fault: otherwise it corrupts memory.
unsafe fn store(address: usize) {
    // SAFETY: the caller passes an address at which the write faults before it has any effect (see the
    // function's contract).
    unsafe { asm!("mov qword ptr [{address}], 1", address = in(reg) address) };
}

/// The outcome if no fault happened.
fn survived() -> ActionResult {
    Err("the program went on".to_owned())
}
