//! What procfs takes from the kernel.

use alloc::vec::Vec;
use core::fmt::{self, Debug};

use hermit_interface::Errno;

use crate::MountInfo;

/// A part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Access as in `/proc/self/maps`: `r`, `w`, `x` and `p`, or `-` in place of the first three.
    pub access: &'static str,
    /// What is mapped.
    pub kind: MappingKind,
}

/// What is mapped in a part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// The image: program and kernel.
    Image,
    /// All memory, of which the heap takes what it needs.
    Heap,
    /// The stack of the thread that asks.
    Stack,
}

/// What a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorTarget {
    /// What has a path.
    Path(Vec<u8>),
    /// What has none, or several: its type, and a number that is unique among those of the type.
    Numbered(&'static str, u64),
}

/// What the kernel knows. Its methods may wait: procfs calls them without a lock.
pub trait Facts: Debug + Send + Sync {
    /// Number of CPUs.
    fn cpus(&self) -> u32;

    /// Time for which a CPU was idle since the start of the machine in nanoseconds; of one that was never
    /// started, all time.
    fn idle_ns(&self, cpu: u32) -> u64;

    /// Number of threads.
    fn threads(&self) -> usize;

    /// Memory of the machine, and how much of it is free, in bytes.
    fn memory(&self) -> (u64, u64);

    /// The free memory, the free blocks of the heap between those that are in use, and what the network keeps
    /// but gives up for others, in bytes.
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

    /// The first open descriptor from a number on.
    fn next_descriptor(&self, from: usize) -> Option<usize>;

    /// Whether a descriptor is open.
    fn is_open(&self, number: usize) -> bool;

    /// What a descriptor refers to.
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
