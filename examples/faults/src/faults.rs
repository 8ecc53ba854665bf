//! The faults: what a broken or hostile program may do.
//!
//! An action that comes back did not fault, which is the failure here. The accesses are written in assembly: in Rust
//! they would have no meaning, and the compiler could turn them into anything.

#![expect(unsafe_code, reason = "breaking the rules is what the faults are for")]

use std::arch::asm;
use std::hint::black_box;
use std::process;

use crate::Outcome;

/// More memory than any machine this runs on has: 100 GiB.
const TOO_MUCH: usize = 100 << 30;

/// Where nothing is mapped: the stack goes on just below.
const NOWHERE: usize = 0x5000;

/// Constant data, which must not be writable.
static CONSTANT: [u8; 32] = *b"constant data, never to change..";

/// Panics.
pub(crate) fn panic() -> Outcome {
    panic!("a panic, as asked for");
}

/// Aborts without a message.
pub(crate) fn abort() -> Outcome {
    process::abort();
}

/// Writes through a null pointer.
pub(crate) fn null() -> Outcome {
    // SAFETY: nothing is mapped at address 0, so the write faults before it has any effect.
    unsafe { store(0) };
    survived()
}

/// Reads through a null pointer.
pub(crate) fn null_read() -> Outcome {
    // SAFETY: nothing is mapped at address 0, so the read faults.
    unsafe { asm!("mov {value:r}, [{address}]", value = out(reg) _, address = in(reg) 0_usize) };
    survived()
}

/// Divides by zero with the processor's own instruction; Rust's division would panic first.
pub(crate) fn divide() -> Outcome {
    // SAFETY: dividing by 0 faults before the registers change, all of which are declared.
    unsafe { asm!("div {zero:e}", zero = in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _) };
    survived()
}

/// Sets the flag that a debugger steps with, which is not there: no fault, other than on Linux.
pub(crate) fn step() -> Outcome {
    // SAFETY: what is pushed is popped. The trap comes after the instruction that follows the last.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop", "nop") };
    Ok("ok")
}

/// Executes the instruction that is reserved for being invalid.
pub(crate) fn illegal() -> Outcome {
    // SAFETY: the instruction does nothing but fault.
    unsafe { asm!("ud2") };
    survived()
}

/// Calls itself until the stack is full.
pub(crate) fn recursion() -> Outcome {
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

/// Uses a stack that is not there.
pub(crate) fn nowhere_stack() -> Outcome {
    // SAFETY: nothing is mapped there, so the push faults; there is no way back.
    unsafe { asm!("mov rsp, {nowhere}", "push rax", "ud2", nowhere = const NOWHERE, options(noreturn)) };
}

/// Has a stack that is not there for a while without using it, and then uses it.
pub(crate) fn nowhere_stack_later() -> Outcome {
    // SAFETY: nothing is mapped there, so the push faults; there is no way back.
    unsafe {
        asm!(
            "mov rsp, {nowhere}",
            "2: dec {turns}",
            "jnz 2b",
            "push rax",
            "ud2",
            nowhere = const NOWHERE,
            turns = in(reg) 500_000_000_u64,
            options(noreturn),
        );
    }
}

/// Allocates more than there is, in a way that does not allow for failure.
pub(crate) fn allocate() -> Outcome {
    black_box(Vec::<u8>::with_capacity(black_box(TOO_MUCH)));
    survived()
}

/// Asks for more than there is; being refused is the right answer.
pub(crate) fn try_allocate() -> Outcome {
    match black_box(Vec::<u8>::new()).try_reserve(black_box(TOO_MUCH)) {
        Ok(()) => Err("100 GiB were granted".to_owned()),
        Err(_) => Ok("refused"),
    }
}

/// Writes over the program's own instructions.
pub(crate) fn write_code() -> Outcome {
    let code = black_box(write_code as fn() -> Outcome as *const ());
    // SAFETY: code is mapped without permission to write, so the write faults before it has any effect.
    unsafe { store(code.addr()) };
    survived()
}

/// Writes over constant data.
pub(crate) fn write_rodata() -> Outcome {
    let constant = black_box(CONSTANT.as_ptr());
    // SAFETY: constants are mapped without permission to write, so the write faults before it has any effect.
    unsafe { store(constant.addr()) };
    survived()
}

/// Calls into the heap, where there is an instruction that would return at once.
pub(crate) fn execute_data() -> Outcome {
    const RETURN: u8 = 0xc3;
    let data = black_box(vec![RETURN; 64]);
    // SAFETY: the heap is mapped without permission to execute, so the call faults; if it did not, it would return
    // with nothing changed.
    unsafe { asm!("call {address}", address = in(reg) data.as_ptr(), clobber_abi("C")) };
    drop(black_box(data));
    survived()
}

/// Writes eight bytes at an address.
///
/// # Safety
///
/// The write must fault: nothing else makes it harmless.
unsafe fn store(address: usize) {
    // SAFETY: the caller guarantees that it faults.
    unsafe { asm!("mov qword ptr [{address}], 1", address = in(reg) address) };
}

/// The outcome of a fault that did not happen.
fn survived() -> Outcome {
    Err("the program went on".to_owned())
}
