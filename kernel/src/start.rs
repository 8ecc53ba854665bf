//! Where the loader enters the kernel, and where the kernel enters the program.
#![expect(unsafe_code, reason = "the entry points on both sides are known to the linker alone")]

use alloc::vec::Vec;
use core::ffi::c_char;
use core::ptr;

use hermit_interface::note::AbiNote;

hermit_hal::entry!(crate::init::main);

/// Tells loader and hypervisor what this is.
#[used]
#[unsafe(link_section = ".note.hermit")]
static NOTE: AbiNote = AbiNote::CURRENT;

unsafe extern "C" {
    /// The standard library's entry point: runs `main`, then exits. `env` ends with a null pointer.
    fn runtime_entry(argc: i32, argv: *const *const c_char, env: *const *const c_char) -> !;
}

/// Runs the program. The strings must live for ever.
pub(crate) fn run_program(args: &[&'static core::ffi::CStr], env: &[&'static core::ffi::CStr]) -> ! {
    let pointers = |strings: &[&'static core::ffi::CStr]| -> &'static [*const c_char] {
        let pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        pointers.leak()
    };
    let argc = i32::try_from(args.len()).unwrap_or(i32::MAX);
    // SAFETY: both arrays end with a null pointer and live for ever, and so do the strings; this is the main
    // thread, with thread-local storage in place.
    unsafe { runtime_entry(argc, pointers(args).as_ptr(), pointers(env).as_ptr()) }
}
