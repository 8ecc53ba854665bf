//! Where the loader enters the kernel.

pub use super::stacks::{BOOT, STACK_TOP};

use crate::boot::{self, Boot};
use crate::platform;

use super::processor::Processor;

/// Defines `_start`, the entry point of the image, which prepares the processor and calls `$main`, a
/// `fn(Boot) -> !`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// Entry point of the image; the loader leaves the address of the boot information in `rdi`.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn _start(_info: u64) -> ! {
            extern "C" fn start(info: u64) -> ! {
                $main($crate::arch::entry::start(info))
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

/// Prepares the processor for its platform, then reads what the loader said.
#[doc(hidden)]
#[must_use]
pub fn start(info: u64) -> Boot {
    let info = boot::find(info);
    platform::choose(info);
    platform::current().enter(&Processor::first());
    boot::init(info)
}
