//! The ABI's functions (system calls), a file per family.
//!
//! A system call is an ordinary function call. Each function here is a shim: it turns raw arguments into
//! checked, safe types, calls a service, and turns its error into `-errno` ([`export`]). A function whose
//! type differs from its declaration in `hermit-abi` does not compile.
//!
//! Pointers of the program are wrapped by a `where` clause:
//!
//! ```text
//! fn sys_write as write(fd: i32, buf: *const u8, len: usize) -> isize
//! where bytes: UserSlice::new(buf, len) {
//! ```
//!
//! The clause calls an unsafe constructor ([`user`]). This is sound because the declaration in `hermit-abi`
//! requires the same of the program as the constructor requires of its arguments.
#![expect(unsafe_code, reason = "the ABI passes raw pointers and its symbols are known to the linker alone")]

mod descriptors;
mod directories;
mod epoll;
mod events;
mod files;
mod lookup;
mod memory;
mod process;
mod sockets;
mod sync;
mod threads;
mod time;
mod transfer;
mod user;
mod vectors;

use user::{UserAtomic, UserBuffer, UserOut, UserPtr, UserResult, UserSlice, UserSliceMut, UserText};
use vectors::{UserVectors, UserVectorsMut};

use crate::threads::errno;

/// Result type of a call that returns `-errno` on failure.
trait Failure {
    /// The result for a negated error number.
    fn failure(number: i32) -> Self;
}

impl Failure for i32 {
    fn failure(number: i32) -> Self {
        number
    }
}

impl Failure for i64 {
    fn failure(number: i32) -> Self {
        number.into()
    }
}

impl Failure for isize {
    fn failure(number: i32) -> Self {
        number as Self
    }
}

/// Runs the body of a call as a closure, so that `?` works in it.
#[inline]
fn attempt<T>(
    body: impl FnOnce() -> Result<T, hermit_interface::Errno>,
) -> Result<T, hermit_interface::Errno> {
    body()
}

/// Converts a number of bytes to the return value of a call. This cannot overflow, since no slice is longer
/// than `isize::MAX`.
#[inline]
const fn count(bytes: usize) -> isize {
    bytes.cast_signed()
}

/// Converts a result to the return value of a call. On failure, also sets the thread's error number.
fn returned<T: Failure>(result: Result<T, hermit_interface::Errno>) -> T {
    result.unwrap_or_else(|error| T::failure(errno::set(error)))
}

/// Defines functions of the ABI that return `-errno` on failure: symbol, name in `hermit-abi`, and a body of
/// type `Result`.
macro_rules! export {
    ($($(#[$meta:meta])* fn $symbol:ident as $name:ident($($arg:ident: $type:ty),*) -> $result:ty
        $(where $($user:ident: $kind:ident::$new:ident($($part:ident),*)),+)? $body:block)*) => {$(
        #[expect(clippy::allow_attributes, reason = "some functions are deprecated, others are not")]
        #[allow(deprecated, reason = "deprecated functions are part of the ABI")]
        const _: [unsafe extern "C" fn($($type),*) -> $result; 2] = [hermit_abi::$name, $symbol];

        $(#[$meta])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($arg: $type),*) -> $result {
            $(
                let call = $crate::syscalls::user::Call;
                $(
                    // SAFETY: this function is unsafe: its caller keeps the contract of the declaration in
                    // `hermit-abi`, which requires that the pointers are null or valid until the function
                    // returns, as the constructor does.
                    let $user = unsafe { $crate::syscalls::$kind::$new(&call, $($part),*) };
                )+
            )?
            $crate::syscalls::returned($crate::syscalls::attempt(|| $body))
        }
    )*};
}

/// Defines functions of the ABI that do not return `-errno`.
macro_rules! export_plain {
    ($($(#[$meta:meta])* fn $symbol:ident as $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?
        $(where $($user:ident: $kind:ident::$new:ident($($part:ident),*)),+)? $body:block)*) => {$(
        #[expect(clippy::allow_attributes, reason = "some functions are deprecated, others are not")]
        #[allow(deprecated, reason = "deprecated functions are part of the ABI")]
        const _: [unsafe extern "C" fn($($type),*) $(-> $result)?; 2] = [hermit_abi::$name, $symbol];

        $(#[$meta])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($arg: $type),*) $(-> $result)? {
            $(
                let call = $crate::syscalls::user::Call;
                $(
                    // SAFETY: this function is unsafe: its caller keeps the contract of the declaration in
                    // `hermit-abi`, which requires that the pointers are null or valid until the function
                    // returns, as the constructor does.
                    let $user = unsafe { $crate::syscalls::$kind::$new(&call, $($part),*) };
                )+
            )?
            $body
        }
    )*};
}

use {export, export_plain};
