//! Functions in assembly that the kernel exports: the entry point of the image, and functions that read the
//! caller's stack.

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
                // SAFETY: only the entry point below calls this function, once and before all other code,
                // with the value that the loader has passed to the entry point.
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

/// Defines `$symbol`, a function in C's calling convention. Its arguments are a pointer to words and a count.
/// It calls `$function` with these arguments, and with the stack pointer and the frame pointer on entry. This
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
