//! The kernel's own stacks: one to boot on, and those that the processor switches to by itself.
//!
//! Interrupts and faults never run on the interrupted stack: application code keeps live data below its stack
//! pointer (the red zone of the System V ABI), and a stack that has overflowed cannot take a fault's frame.

use core::cell::UnsafeCell;

use hermit_interface::image::PAGE_SIZE;
use hermit_interface::to_usize;

const GUARD: usize = to_usize(PAGE_SIZE);

/// Room for the report of a fault, which formats text.
const INTERRUPT_SIZE: usize = 16 << 10;

/// Room for setting up memory, whose tables pass over the stack.
const BOOT_SIZE: usize = 32 << 10;

/// A stack with a page below it that is unmapped once the page tables are the kernel's.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Stack<const SIZE: usize> {
    guard: [u8; GUARD],
    stack: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: the memory is used by the processor alone, as a stack; Rust code never forms a reference to it.
unsafe impl<const SIZE: usize> Sync for Stack<SIZE> {}

impl<const SIZE: usize> Stack<SIZE> {
    const fn new() -> Self {
        Self { guard: [0; GUARD], stack: UnsafeCell::new([0; SIZE]) }
    }

    /// The address just above the stack.
    pub(crate) fn top(&'static self) -> u64 {
        (&raw const *self).addr() as u64 + size_of::<Self>() as u64
    }

    fn extent(&'static self) -> Extent {
        Extent { guard: (&raw const self.guard).addr() as u64, top: self.top() }
    }
}

/// Offset of the top from the start, for the entry code.
#[doc(hidden)]
pub const STACK_TOP: usize = size_of_val(&BOOT);

/// The stack on which the kernel boots.
#[doc(hidden)]
pub static BOOT: Stack<BOOT_SIZE> = Stack::new();

/// Which of [`INTERRUPT_STACKS`] an interrupt or exception uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum InterruptStack {
    /// Interrupts of devices.
    Device = 0,
    /// Exceptions that a program can cause.
    Fault = 1,
    /// A fault while a fault was being delivered.
    DoubleFault = 2,
    /// Non-maskable interrupts and machine checks.
    NonMaskable = 3,
}

/// In the order of [`InterruptStack`].
pub(crate) static INTERRUPT_STACKS: [Stack<INTERRUPT_SIZE>; 4] = [const { Stack::new() }; 4];

/// Where a stack is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Address of the guard page, below which nothing belongs to the stack.
    pub(crate) guard: u64,
    /// The address just above the stack.
    pub(crate) top: u64,
}

impl Extent {
    /// Whether an address is in the stack itself.
    pub(crate) fn contains(self, address: u64) -> bool {
        (self.guard + PAGE_SIZE..self.top).contains(&address)
    }
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = Extent> {
    INTERRUPT_STACKS.iter().map(Stack::extent).chain([BOOT.extent()])
}
