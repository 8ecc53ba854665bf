//! A panic of the network stack ends the machine, by way of the kernel.
#![expect(unsafe_code, reason = "the kernel's functions are known to the linker alone")]

use core::panic::PanicInfo;

unsafe extern "C" {
    /// Of the kernel; never fails.
    safe fn sys_abort() -> !;
}

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    sys_abort()
}
