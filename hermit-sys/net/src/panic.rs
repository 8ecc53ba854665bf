//! A panic of the network stack ends the machine, by way of the kernel.
#![expect(unsafe_code, reason = "the kernel's functions are known to the linker alone")]

use core::ffi::c_void;
use core::fmt::{self, Write};
use core::panic::PanicInfo;

/// Where errors are written.
const STDERR: i32 = 2;

unsafe extern "C" {
    /// Of the kernel; never fails.
    safe fn sys_abort() -> !;

    /// Of the kernel.
    fn sys_write(fd: i32, buf: *const c_void, len: usize) -> isize;
}

/// The program's standard error.
struct Errors;

impl Write for Errors {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is there during the call. Nobody is left who could do something about an error.
        let _: isize = unsafe { sys_write(STDERR, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _: fmt::Result = writeln!(Errors, "hermit: fatal error of the network stack: {info}");
    sys_abort()
}
