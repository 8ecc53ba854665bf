//! Plain numbers under their C names.

#![expect(non_camel_case_types, reason = "C names, which std and ported programs use")]

use core::ffi::c_void;

/// Identifies a thread from [`spawn2`](crate::spawn2) until it is joined; 0 is never a thread.
pub type Tid = u32;

/// Identifies a process; a unikernel has one.
pub type pid_t = i32;

/// Names a clock: [`CLOCK_REALTIME`](crate::CLOCK_REALTIME) or [`CLOCK_MONOTONIC`](crate::CLOCK_MONOTONIC).
pub type clockid_t = i32;

/// Whole seconds.
pub type time_t = i64;

/// Microseconds, never negative.
pub type useconds_t = u32;

/// Microseconds, or a negative number.
pub type suseconds_t = i32;

/// The number of entries given to [`poll`](crate::poll).
pub type nfds_t = usize;

/// A semaphore: a handle that only the kernel may look into, set up by [`sem_init`](crate::sem_init).
pub type sem_t = *const c_void;

/// An address family, one of the `AF_` numbers.
pub type sa_family_t = u8;

/// The length in bytes of a socket address or of a socket option.
pub type socklen_t = u32;

/// An IPv4 address in network byte order.
pub type in_addr_t = u32;

/// A port in network byte order.
pub type in_port_t = u16;
