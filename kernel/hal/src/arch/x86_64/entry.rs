//! The first instruction of the image.

pub use super::stacks::{BOOT, STACK_TOP};

/// Defines `_start`, the entry point of the image, which calls `$main`, a `fn(Boot) -> !`, once the hal is ready.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// Entry point of the image; the loader leaves the address of the boot information in `rdi`.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn _start(_info: u64) -> ! {
            extern "C" fn start(info: u64) -> ! {
                $main($crate::boot::start(info))
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
