//! The ABI's functions, a file per family.
//!
//! A call is an ordinary function call. Each function here turns raw arguments into checked, safe types, calls a
//! service, and turns its error into `-errno` ([`export`]); a symbol that is not declared alike in `hermit-abi`
//! does not compile. What this kernel does not have yet fails with the error that says so.
#![expect(unsafe_code, reason = "the ABI passes raw pointers and its symbols are known to the linker alone")]

mod addresses;
mod descriptors;
mod events;
mod files;
mod lookup;
mod memory;
mod options;
mod process;
mod sockets;
mod sync;
mod threads;
mod time;
mod user;

use crate::threads::errno;

/// How a function returns a failure: a negative number.
trait Failure {
    /// From the negative number.
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

/// Runs a call's body, in which `?` works.
#[inline]
fn attempt<T>(
    body: impl FnOnce() -> Result<T, hermit_interface::Errno>,
) -> Result<T, hermit_interface::Errno> {
    body()
}

/// Turns a call's result into what it returns, and notes the error for `get_errno`.
fn returned<T: Failure>(result: Result<T, hermit_interface::Errno>) -> T {
    result.unwrap_or_else(|error| T::failure(errno::set(error)))
}

/// Defines functions of the ABI: the symbol, the name in `hermit-abi`, and a body that gives a `Result`.
macro_rules! export {
    ($($(#[$meta:meta])* fn $symbol:ident as $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
        #[expect(clippy::allow_attributes, reason = "some functions are deprecated, others are not")]
        #[allow(deprecated, reason = "deprecated functions are part of the ABI")]
        const _: [unsafe extern "C" fn($($type),*) -> $result; 2] = [hermit_abi::$name, $symbol];

        $(#[$meta])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($arg: $type),*) -> $result {
            $crate::syscalls::returned($crate::syscalls::attempt(|| $body))
        }
    )*};
}

/// Defines functions of the ABI that return no error.
macro_rules! export_plain {
    ($($(#[$meta:meta])* fn $symbol:ident as $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        #[expect(clippy::allow_attributes, reason = "some functions are deprecated, others are not")]
        #[allow(deprecated, reason = "deprecated functions are part of the ABI")]
        const _: [unsafe extern "C" fn($($type),*) $(-> $result)?; 2] = [hermit_abi::$name, $symbol];

        $(#[$meta])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($arg: $type),*) $(-> $result)? $body
    )*};
}

/// Defines functions that this kernel does not have: they fail with the error named.
macro_rules! unsupported {
    ($error:ident; $($symbol:ident as $name:ident($($type:ty),*) -> $result:ty,)*) => {$(
        #[expect(clippy::allow_attributes, reason = "some functions are deprecated, others are not")]
        #[allow(deprecated, reason = "deprecated functions are part of the ABI")]
        const _: [unsafe extern "C" fn($($type),*) -> $result; 2] = [hermit_abi::$name, $symbol];

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($(_: $type),*) -> $result {
            $crate::syscalls::returned(Err(hermit_interface::Errno::$error))
        }
    )*};
}

use {export, export_plain, unsupported};
