//! A panic of the kernel itself.

use core::panic::PanicInfo;

use crate::report;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    report::fatal(format_args!("{info}"))
}
