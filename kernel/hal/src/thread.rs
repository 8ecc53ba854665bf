//! Entering a thread on its stack.

use core::arch::asm;

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use crate::memory::{Stack, ThreadLocals};

/// Leaves the current stack for good and runs `function` on another, with thread-local variables of its own.
pub fn enter(stack: Stack, locals: ThreadLocals, function: extern "C" fn() -> !) -> ! {
    FsBase::write(VirtAddr::new(locals.pointer()));
    let top = stack.top();
    // The thread owns both until the machine ends.
    core::mem::forget((stack, locals));
    // SAFETY: `top` is the top of a stack that nobody else uses; nothing on the current stack is used again.
    // The call leaves the stack as the C ABI wants it on a function's entry.
    unsafe {
        asm!("mov rsp, {top}", "xor ebp, ebp", "call {function}", "ud2", top = in(reg) top, function = in(reg) function, options(noreturn))
    }
}
