//! The main thread: runs the program's `main` with its arguments and environment.
#![expect(unsafe_code, reason = "the standard library's entry point is known to the linker alone")]

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::{ptr, slice};

use crate::command_line;

/// The program's `argv[0]` if the command line does not name one.
pub(crate) const DEFAULT_NAME: &[u8] = b"hermit";

unsafe extern "C" {
    /// The standard library's entry point: runs `main`, then exits. Both arrays and their strings must live
    /// as long as the program; `env` ends with a null pointer. To be called once, on the main thread.
    fn runtime_entry(argc: i32, argv: *const *const c_char, env: *const *const c_char) -> !;

    /// Bounds of the image's `.init_array`, which the linker defines (System V ABI, generic, chapter 5).
    #[link_name = "__init_array_start"]
    static INITIALIZERS_START: Initializer;
    #[link_name = "__init_array_end"]
    static INITIALIZERS_END: Initializer;

    /// Bounds of the image's `.fini_array`.
    #[link_name = "__fini_array_start"]
    static FINALIZERS_START: Finalizer;
    #[link_name = "__fini_array_end"]
    static FINALIZERS_END: Finalizer;
}

/// A function that runs before `main`: a constructor of C or C++. It gets the program's arguments and
/// environment, as on Linux.
type Initializer = unsafe extern "C" fn(i32, *const *const c_char, *const *const c_char);

/// A function that runs when the program exits.
type Finalizer = unsafe extern "C" fn();

/// True if the finalizers have been started.
static IS_FINALIZED: AtomicBool = AtomicBool::new(false);

/// Entry function of the main thread.
pub(crate) extern "C" fn run(_: usize) {
    let line = command_line::parsed();
    let name = line.argv0.as_deref().unwrap_or(DEFAULT_NAME);
    let argv = null_terminated(Some(name), &line.args);
    let env = null_terminated(None, &line.env);
    let argc = i32::try_from(argv.len() - 1).unwrap_or(i32::MAX);
    // SAFETY: the strings and arrays live as long as the program, and the kernel runs this function once,
    // before `main`.
    unsafe { initialize(argc, argv.as_ptr(), env.as_ptr()) };
    // SAFETY: `c_string` leaks the strings and `null_terminated` the arrays, so neither is ever freed; the
    // arrays end with null; the kernel runs this function once, on the main thread, whose thread-local
    // storage the thread's creation has set up.
    unsafe { runtime_entry(argc, argv.as_ptr(), env.as_ptr()) }
}

/// Runs the image's initializers in their order.
///
/// # Safety
///
/// To be called once, on the main thread, before `main`, with arguments and an environment as for
/// [`runtime_entry`].
unsafe fn initialize(argc: i32, argv: *const *const c_char, env: *const *const c_char) {
    let (start, end) = (&raw const INITIALIZERS_START, &raw const INITIALIZERS_END);
    let count = (end.addr() - start.addr()) / size_of::<Initializer>();
    // SAFETY: the linker places the array between its two symbols, in a part of the image that is not written
    // to any more.
    let initializers = unsafe { slice::from_raw_parts(start, count) };
    for initializer in initializers {
        // SAFETY: the array has the addresses of functions that are meant to be called so, at this time, with
        // these arguments, which the caller vouches for.
        unsafe { initializer(argc, argv, env) };
    }
}

/// Runs the image's finalizers in reverse order. Only the first call has an effect.
pub(crate) fn finalize() {
    let (start, end) = (&raw const FINALIZERS_START, &raw const FINALIZERS_END);
    let count = (end.addr() - start.addr()) / size_of::<Finalizer>();
    if count == 0 || IS_FINALIZED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: the linker places the array between its two symbols, in a part of the image that is not written
    // to any more.
    let finalizers = unsafe { slice::from_raw_parts(start, count) };
    for finalizer in finalizers.iter().rev() {
        // SAFETY: the array has the addresses of functions that are meant to be called at exit, once; the
        // flag keeps a second call away, also one by such a function.
        unsafe { finalizer() };
    }
}

/// Returns a leaked array of pointers to leaked copies of strings. The array ends with a null pointer.
fn null_terminated(first: Option<&[u8]>, others: &[Vec<u8>]) -> &'static [*const c_char] {
    let mut pointers = Vec::with_capacity(others.len() + 2);
    pointers.extend(first.map(|string| c_string(string).as_ptr()));
    pointers.extend(others.iter().map(|string| c_string(string).as_ptr()));
    pointers.push(ptr::null());
    pointers.leak()
}

/// Returns a leaked copy of the bytes up to the first NUL.
fn c_string(bytes: &[u8]) -> &'static CStr {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let string = CString::new(&bytes[..end]).unwrap_or_default();
    Box::leak(string.into_boxed_c_str())
}
