//! The panic handler: prints the panic and ends the machine through the kernel.
#![expect(unsafe_code, reason = "the kernel's functions are known to the linker alone")]

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use hermit_abi::STDERR_FILENO;

/// The program's standard error.
struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // An error is ignored: the machine is about to end anyway.
        // SAFETY: pointer and length are those of a string, which is borrowed during the call.
        let _: isize = unsafe { hermit_abi::write(STDERR_FILENO, text.as_ptr(), text.len()) };
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _: fmt::Result = writeln!(StandardError, "hermit: fatal error of the network stack: {info}");
    // SAFETY: the function has no requirements.
    unsafe { hermit_abi::abort() }
}
