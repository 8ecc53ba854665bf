//! The panic handler of the kernel itself; programs have std's.

use core::panic::PanicInfo;

use crate::report;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    report::fatal(format_args!("{info}"))
}
