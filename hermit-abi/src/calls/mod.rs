//! The functions that the kernel exports, by family.
//!
//! Each is declared under its short name and linked as `sys_` and that name. A function whose documentation says
//! nothing else returns 0 or a count on success and a negative error number on failure, so `-ENOENT` for a file that
//! is not there. It takes no pointer longer than the call lasts.
//!
//! All of them are unsafe to call for one common reason: the declarations are true only in an image that has the
//! kernel in it. What else a caller must see to stands under each function's "Safety".

#![expect(unsafe_code, reason = "declarations of foreign functions")]

pub(crate) mod descriptor;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod socket;
pub(crate) mod sync;
pub(crate) mod thread;
pub(crate) mod time;
