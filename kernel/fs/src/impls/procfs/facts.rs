//! The facts that procfs asks the kernel for.

use alloc::vec::Vec;
use core::fmt::{self, Debug};

use hermit_interface::Errno;

use crate::interface::{DescriptorTarget, MountInfo};

/// A part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Access as in `/proc/self/maps`: `r`, `w`, `x` and `p`, or `-` in place of the first three.
    pub access: &'static str,
    /// Contents of the mapping.
    pub kind: MappingKind,
}

/// Contents of a part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// The image: program and kernel.
    Image,
    /// All memory. The heap allocates its blocks from it.
    Heap,
    /// The stack of the thread that asks.
    Stack,
}

/// Source of the facts. The methods may wait: procfs calls them without a lock.
pub trait Facts: Debug + Send + Sync {
    /// Number of CPUs.
    fn cpus(&self) -> u32;

    /// Time in nanoseconds for which a CPU was idle since the start of the machine. For a CPU that was never
    /// started, this is the whole time.
    fn idle_ns(&self, cpu: u32) -> u64;

    /// Number of threads.
    fn threads(&self) -> usize;

    /// Memory of the machine and its free part, in bytes.
    fn memory(&self) -> (u64, u64);

    /// Bytes of memory that could be allocated: the free memory, the free blocks between used ones in the
    /// heap, and the memory that the network keeps in reserve and gives up when others need it.
    fn available_memory(&self) -> u64;

    /// Time since the start of the machine in nanoseconds.
    fn uptime_ns(&self) -> u64;

    /// Calls `add` with the host name.
    ///
    /// # Errors
    ///
    /// That of `add`.
    fn hostname(&self, add: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result;

    /// Calls `add` with the name of the program and its arguments.
    fn arguments(&self, add: &mut dyn FnMut(&[u8]));

    /// Calls `add` with the variables of the environment, as `NAME=VALUE`.
    fn environment(&self, add: &mut dyn FnMut(&[u8]));

    /// The mounted file systems, the root first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    fn mounts(&self) -> Result<Vec<MountInfo>, Errno>;

    /// The path of the current directory.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it was removed; `ENOMEM`, `EIO`.
    fn current_directory(&self) -> Result<Vec<u8>, Errno>;

    /// The first open descriptor with at least this number.
    fn next_descriptor(&self, from: usize) -> Option<usize>;

    /// Returns true if a descriptor is open.
    fn is_open(&self, number: usize) -> bool;

    /// The file or object that a descriptor refers to.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the descriptor is not open or the directory was removed; `ENOMEM`, `EIO`.
    fn descriptor(&self, number: usize) -> Result<DescriptorTarget, Errno>;

    /// The parts of the address space that are known, in ascending order.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn mappings(&self) -> Result<Vec<Mapping>, Errno>;
}
