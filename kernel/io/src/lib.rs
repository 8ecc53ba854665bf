//! File descriptors and the objects behind them: console, eventfd, epoll, pipes, shutdown requests, block
//! devices; and the interface of sockets.
//!
//! A descriptor is an index into a [`DescriptorTable`] of shared objects. All objects have the same interface
//! ([`Object`]): an operation that an object does not support fails with the error of Linux. Operations that
//! may block are polled ([`core::task::Poll`]), so that the caller chooses how to wait; those of a [`Socket`]
//! wait themselves.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use std::sync::Arc;
//! use std::task::{Context, Poll, Waker};
//!
//! use hermit_io::{DescriptorTable, EventFd, Object, ReadBuffer};
//! use parking_lot::RawMutex;
//!
//! let table: DescriptorTable<RawMutex, Arc<dyn Object>> = DescriptorTable::new();
//! let descriptor = table.reserve()?;
//! table.fill(descriptor, Arc::new(EventFd::<RawMutex>::new(7, false, true)));
//! let mut memory = [MaybeUninit::uninit(); 8];
//! let mut buffer = ReadBuffer::new(&mut memory);
//! let mut context = Context::from_waker(Waker::noop());
//! let read = table.get(descriptor)?.poll_read(&mut context, &mut buffer);
//! assert_eq!((read, buffer.len()), (Poll::Ready(Ok(())), 8));
//! # Ok::<(), hermit_interface::Errno>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod argument;
mod buffer;
mod calls;
mod console;
mod epoll;
mod eventfd;
mod fields;
mod file_handle;
mod memory_device;
mod object;
mod pipe;
mod poll_leader;
mod shutdown;
mod slot_map;
mod socket;
mod storage;
mod table;

pub use argument::{Argument, ValueResult};
pub use buffer::ReadBuffer;
pub use console::{Console, ErrorStream, Sink, Terminal};
pub use epoll::{Epoll, Event};
pub use eventfd::EventFd;
pub use fields::{field, set_field};
pub use file_handle::{Access, FileHandle, Positioned};
pub use hermit_interface::Readiness;
pub use memory_device::{MemoryDevice, MemoryDeviceFile};
pub use object::{ACCESS_MODE, Object, Stat};
pub use pipe::{Pipe, PipeReader, PipeWriter};
pub use poll_leader::PollLeader;
pub use shutdown::{ShutdownFd, ShutdownRequests};
pub use slot_map::{Chunk, ChunkPlan, SlotMap};
pub use socket::{CommonSettings, Direction, MessageFlags, OptionId, Socket};
pub use storage::{BlockFile, Storage};
pub use table::{DescriptorTable, FileDescriptor, LockedSlot};
