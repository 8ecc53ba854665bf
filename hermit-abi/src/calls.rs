//! The functions that the kernel exports, by family.
//!
//! Each is declared under its short name. The symbol that it is linked to has the prefix `sys_`. Unless
//! documented otherwise, a function returns 0 or a count on success, and a negated error number on failure.
//! The kernel uses pointers only until the call returns.
//!
//! All except [`string_moves`](crate::string_moves) are unsafe to call for one common reason: the symbols
//! exist only in an image, which contains the kernel. The section `Safety` of a function lists its further
//! requirements.

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
