//! Integer types under their C names.

#![expect(non_camel_case_types, reason = "C names, which std and ported programs use")]

use core::ffi::c_void;

/// Number of a thread; never 0.
pub type Tid = u32;

/// Process ID; there is one process.
pub type pid_t = i32;

/// Clock ID: [`CLOCK_REALTIME`](crate::CLOCK_REALTIME) or [`CLOCK_MONOTONIC`](crate::CLOCK_MONOTONIC).
pub type clockid_t = i32;

/// Whole seconds.
pub type time_t = i64;

/// Microseconds, never negative.
pub type useconds_t = u32;

/// Microseconds, or a negative number.
pub type suseconds_t = i32;

/// Number of entries for [`poll`](crate::poll).
pub type nfds_t = usize;

/// A semaphore, initialised by [`sem_init`](crate::sem_init). Only the kernel uses its value.
pub type sem_t = *const c_void;

/// An address family, one of the `AF_` numbers.
pub type sa_family_t = u8;

/// Length of a socket address or a socket option in bytes.
pub type socklen_t = u32;

/// An IPv4 address in network byte order.
pub type in_addr_t = u32;

/// A port in network byte order.
pub type in_port_t = u16;
