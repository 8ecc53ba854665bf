//! Descriptors and the objects behind them.
//!
//! A descriptor is an index into a [`DescriptorTable`] of shared objects. All objects look alike ([`Object`]): an operation
//! that makes no sense for one has the error that Linux gives. Operations that may have to wait are polled, so
//! that whoever calls decides how to wait.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod buffer;
mod console;
mod eventfd;
mod object;
mod storage;
mod table;

pub use buffer::ReadBuffer;
pub use console::{Console, Terminal};
pub use eventfd::{EventFd, WaitQueue};
pub use object::{Object, Readiness, Stat};
pub use storage::{AccessMode, BlockFile, Storage};
pub use table::{Descriptor, DescriptorTable};
