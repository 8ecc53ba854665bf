//! The kernel's own stacks: for each CPU one to start and to idle on, and those that the processor switches to by itself.
//!
//! Interrupts and faults never run on the interrupted stack: application code keeps live data below its stack
//! pointer (the red zone of the System V ABI), and a stack that has overflowed cannot take a fault's frame.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

use super::segments::StackTops;
use crate::memory::{OutOfMemory, map_kernel_stack, reserve_addresses};

const GUARD: usize = to_usize(PAGE_SIZE);

/// Room for the report of a fault, which formats text.
pub(crate) const INTERRUPT_SIZE: usize = 16 << 10;

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

impl InterruptStack {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;
}

/// In the order of [`InterruptStack`].
pub(crate) static INTERRUPT_STACKS: [Stack<INTERRUPT_SIZE>; InterruptStack::COUNT] =
    [const { Stack::new() }; InterruptStack::COUNT];

/// Where a stack is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Address of the guard page, below which nothing belongs to the stack.
    pub(crate) guard: u64,
    /// The address just above the stack.
    pub(crate) top: u64,
}

/// The stacks of the first CPU.
pub(crate) fn of_first() -> impl Iterator<Item = Extent> {
    INTERRUPT_STACKS.iter().map(Stack::extent).chain([BOOT.extent()])
}

/// Distance of the stacks of other CPUs from each other.
const STRIDE: u64 = (GUARD + INTERRUPT_SIZE) as u64;
/// Stacks of another CPU: the last one is that on which it starts and idles.
const EACH: u64 = InterruptStack::COUNT as u64 + 1;
/// Other CPUs.
const OTHERS: u64 = 63;

/// Where the stacks of other CPUs start; 0 until there are any.
static START: AtomicU64 = AtomicU64::new(0);

/// The stacks of another CPU than the first.
#[derive(Debug)]
pub(crate) struct Stacks {
    /// For interrupts.
    pub(crate) interrupts: StackTops,
    /// To start and to idle on.
    pub(crate) own: u64,
}

impl Stacks {
    /// For CPU `number`, from 1 to 63. Called for one CPU after the other.
    pub(crate) fn new(number: u32) -> Result<Self, OutOfMemory> {
        if START.load(Relaxed) == 0 {
            START.store(reserve_addresses(STRIDE * EACH * OTHERS)?, Relaxed);
        }
        let first = START.load(Relaxed) + (u64::from(number) - 1) % OTHERS * EACH * STRIDE;
        let mut tops = [0; InterruptStack::COUNT + 1];
        for (index, top) in tops.iter_mut().enumerate() {
            let guard = first + index as u64 * STRIDE;
            map_kernel_stack(guard + PAGE_SIZE, STRIDE - PAGE_SIZE)?;
            *top = guard + STRIDE;
        }
        let [device, fault, double_fault, non_maskable, own] = tops;
        Ok(Self { interrupts: [device, fault, double_fault, non_maskable], own })
    }
}

/// The place of the stack to which an address belongs, its guard page included.
fn find(address: u64) -> Option<Extent> {
    let of_others = || {
        let start = START.load(Relaxed);
        let offset =
            address.checked_sub(start).filter(|&offset| start != 0 && offset < STRIDE * EACH * OTHERS)?;
        let guard = start + offset / STRIDE * STRIDE;
        Some(Extent { guard, top: guard + STRIDE })
    };
    of_first().find(|stack| (stack.guard..stack.top).contains(&address)).or_else(of_others)
}

/// Whether an address is in a stack itself.
pub(crate) fn contains(address: u64) -> bool {
    find(address).is_some_and(|stack| address >= stack.guard + PAGE_SIZE)
}

/// Whether an address is in the page below a stack.
pub(crate) fn is_guard(address: u64) -> bool {
    find(address).is_some_and(|stack| address < stack.guard + PAGE_SIZE)
}
