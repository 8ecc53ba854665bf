//! The main thread: runs the program's `main` with its arguments and environment.
#![expect(unsafe_code, reason = "the standard library's entry point is known to the linker alone")]

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::{iter, ptr};

use crate::command_line;

/// The program's `argv[0]` if the command line does not name one.
pub(crate) const DEFAULT_NAME: &[u8] = b"hermit";

unsafe extern "C" {
    /// The standard library's entry point: runs `main`, then exits. Both arrays and their strings must live as long as
    /// the program; `env` ends with a null pointer. To be called once, on the main thread.
    fn runtime_entry(argc: i32, argv: *const *const c_char, env: *const *const c_char) -> !;
}

/// Entry function of the main thread.
pub(crate) extern "C" fn run(_: usize) {
    let line = command_line::parsed();
    let name = line.argv0.as_deref().unwrap_or(DEFAULT_NAME);
    let argv = null_terminated(iter::once(name).chain(line.args.iter().map(Vec::as_slice)).map(c_string));
    let env = null_terminated(line.env.iter().map(|variable| c_string(variable)));
    let argc = i32::try_from(argv.len() - 1).unwrap_or(i32::MAX);
    // SAFETY: `c_string` leaks the strings and `null_terminated` the arrays, so neither is ever freed; the arrays end
    // with null; the kernel runs this function once, on the main thread, whose thread-local storage the thread's
    // creation has set up.
    unsafe { runtime_entry(argc, argv.as_ptr(), env.as_ptr()) }
}

/// Pointers to the strings in a leaked array that ends with a null pointer.
fn null_terminated(strings: impl Iterator<Item = &'static CStr>) -> &'static [*const c_char] {
    let pointers: Vec<_> = strings.map(CStr::as_ptr).chain([ptr::null()]).collect();
    pointers.leak()
}

/// A leaked copy of the bytes up to the first NUL.
fn c_string(bytes: &[u8]) -> &'static CStr {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let string = CString::new(&bytes[..end]).unwrap_or_default();
    Box::leak(string.into_boxed_c_str())
}
