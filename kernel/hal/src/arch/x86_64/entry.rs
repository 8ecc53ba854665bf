//! Functions in assembly that the kernel exports: the first instruction of the image, and calls that look at
//! the stack.

pub use super::stacks::{BOOT, STACK_TOP};

/// Defines `_start`, the entry point of the image, which calls `$main`, a `fn(Boot) -> !`, once the hal is
/// ready.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// Entry point of the image; the loader leaves the address of the boot information in `rdi`.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn _start(_info: u64) -> ! {
            extern "C" fn start(info: u64) -> ! {
                // SAFETY: only the entry point below calls this function, once and first of all, with what
                // the loader has passed to it.
                $main(unsafe { $crate::boot::start(info) })
            }
            core::arch::naked_asm!(
                "lea rsp, [rip + {stack} + {top}]",
                "xor ebp, ebp",
                "call {start}",
                "ud2",
                stack = sym $crate::arch::entry::BOOT,
                top = const $crate::arch::entry::STACK_TOP,
                start = sym start,
            )
        }
    };
}

/// Defines `$symbol`, a function in C's calling convention whose arguments are a pointer to words and a
/// count. It calls `$function` with them, and with stack pointer and frame pointer as they are on entry: the
/// stack pointer points at the return address.
#[macro_export]
macro_rules! stack_entry {
    ($symbol:ident, $function:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $symbol(_words: *mut usize, _count: usize) -> usize {
            const _: unsafe extern "C" fn(*mut usize, usize, u64, u64) -> usize = $function;
            core::arch::naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {}", sym $function)
        }
    };
}
