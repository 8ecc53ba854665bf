//! The kernel's own stacks. Each CPU has one stack on which it starts and idles, and its interrupt stacks
//! (IST).
//!
//! Interrupts and exceptions never run on the interrupted stack. Application code keeps live data below its
//! stack pointer (the red zone of the System V ABI), and a stack that has overflowed cannot take an
//! exception's frame. Exceptions of different severity have different stacks, so that a double fault in a
//! fault handler, or an NMI at any time, finds an unused one. The stacks of the first CPU are static; those
//! of the others are mapped before they start.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::{MAX_CPUS, to_usize};

use crate::fallible::OutOfMemory;

const GUARD: usize = to_usize(PAGE_SIZE);

/// Bytes of an interrupt stack: enough for the report of a fault, which formats text.
pub(crate) const INTERRUPT_SIZE: usize = 16 << 10;

/// Bytes of the boot stack: enough to set up memory management, whose state is moved through the stack.
const BOOT_SIZE: usize = 32 << 10;

/// A stack with a guard page below it. The guard page is unmapped after the kernel has taken over the page
/// tables.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct KernelStack<const SIZE: usize> {
    guard: [u8; GUARD],
    stack: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: the only safe access is to the address. The memory itself is a stack that one CPU uses through its
// stack pointer; no Rust code forms a reference to its contents.
unsafe impl<const SIZE: usize> Sync for KernelStack<SIZE> {}

impl<const SIZE: usize> KernelStack<SIZE> {
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
pub static BOOT: KernelStack<BOOT_SIZE> = KernelStack::new();

/// Index of an interrupt stack in [`INTERRUPT_STACKS`] and in the interrupt stack table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum InterruptStack {
    /// Stack of interrupts.
    Device = 0,
    /// Stack of exceptions that a program can cause.
    Fault = 1,
    /// Stack of double faults: exceptions while an exception was being delivered.
    DoubleFault = 2,
    /// Stack of non-maskable interrupts and machine checks.
    NonMaskable = 3,
}

impl InterruptStack {
    /// Number of interrupt stacks of a CPU.
    pub(crate) const COUNT: usize = 4;
}

/// The tops of a CPU's interrupt stacks, in the order of [`InterruptStack`].
pub(crate) type StackTops = [u64; InterruptStack::COUNT];

/// Interrupt stacks of the first CPU, in the order of [`InterruptStack`].
pub(super) static INTERRUPT_STACKS: [KernelStack<INTERRUPT_SIZE>; InterruptStack::COUNT] =
    [const { KernelStack::new() }; InterruptStack::COUNT];

/// Addresses of a stack with its guard page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Address of the guard page; the stack starts one page above.
    pub(crate) guard: u64,
    /// The address just above the stack.
    pub(crate) top: u64,
}

/// All kernel stacks of the first CPU.
pub(crate) fn of_first() -> impl Iterator<Item = Extent> {
    INTERRUPT_STACKS.iter().map(KernelStack::extent).chain([BOOT.extent()])
}

/// Bytes from one stack of a secondary CPU to the next.
const STRIDE: u64 = (GUARD + INTERRUPT_SIZE) as u64;
/// Stacks per secondary CPU: the interrupt stacks, and the one on which it starts and idles.
const STACKS_PER_CPU: u64 = InterruptStack::COUNT as u64 + 1;
/// Largest number of secondary CPUs.
const MAX_SECONDARY: u64 = MAX_CPUS as u64 - 1;

/// Address of the first stack of secondary CPUs; 0 before they are reserved.
static START: AtomicU64 = AtomicU64::new(0);

/// Number of secondary CPUs whose stacks are mapped.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Memory for the stacks of secondary CPUs, from the layers above.
pub(crate) trait StackMemory {
    /// Reserves addresses without memory, permanently. Returns the first address.
    fn reserve_addresses(size: u64) -> Result<u64, OutOfMemory>;

    /// Maps memory at reserved addresses for a kernel stack.
    fn map_stack(address: u64, size: u64) -> Result<(), OutOfMemory>;
}

/// The stacks of a secondary CPU.
#[derive(Debug)]
pub(super) struct Stacks {
    /// Tops of the interrupt stacks.
    pub(super) interrupts: StackTops,
    /// Top of the stack on which the CPU starts and idles.
    pub(super) own: u64,
}

impl Stacks {
    /// Maps the stacks of CPU `number`, from 1 to 63. The caller calls this for each CPU in ascending order.
    pub(super) fn new<M: StackMemory>(number: u32) -> Result<Self, OutOfMemory> {
        if START.load(Relaxed) == 0 {
            START.store(M::reserve_addresses(STRIDE * STACKS_PER_CPU * MAX_SECONDARY)?, Relaxed);
        }
        let first = START.load(Relaxed) + (u64::from(number) - 1) % MAX_SECONDARY * STACKS_PER_CPU * STRIDE;
        let mut tops = [0; InterruptStack::COUNT + 1];
        for (index, top) in tops.iter_mut().enumerate() {
            let guard = first + index as u64 * STRIDE;
            M::map_stack(guard + PAGE_SIZE, STRIDE - PAGE_SIZE)?;
            *top = guard + STRIDE;
        }
        MAPPED.store(number.into(), Relaxed);
        let [device, fault, double_fault, non_maskable, own] = tops;
        Ok(Self { interrupts: [device, fault, double_fault, non_maskable], own })
    }
}

/// The kernel stack to which an address belongs. The guard page is part of the stack.
fn find(address: u64) -> Option<Extent> {
    let of_secondary = || {
        let start = START.load(Relaxed);
        let end = STRIDE * STACKS_PER_CPU * MAPPED.load(Relaxed);
        let offset = address.checked_sub(start).filter(|&offset| start != 0 && offset < end)?;
        let guard = start + offset / STRIDE * STRIDE;
        Some(Extent { guard, top: guard + STRIDE })
    };
    of_first().find(|stack| (stack.guard..stack.top).contains(&address)).or_else(of_secondary)
}

/// Returns true if an address is in a kernel stack, above its guard page.
pub(crate) fn contains(address: u64) -> bool {
    find(address).is_some_and(|stack| address >= stack.guard + PAGE_SIZE)
}

/// Returns true if an address is in the guard page of a kernel stack.
pub(crate) fn is_guard(address: u64) -> bool {
    find(address).is_some_and(|stack| address < stack.guard + PAGE_SIZE)
}

const _: () = assert!(STACK_TOP.is_multiple_of(GUARD), "the boot stack consists of whole pages");

#[cfg(test)]
mod tests {
    use super::{MAX_SECONDARY, PAGE_SIZE, STACKS_PER_CPU, STRIDE, StackMemory, Stacks, contains, is_guard};
    use crate::fallible::OutOfMemory;

    const START: u64 = 200 << 39;

    /// Memory for the stacks of one secondary CPU.
    enum OneCpu {}

    impl StackMemory for OneCpu {
        fn reserve_addresses(size: u64) -> Result<u64, OutOfMemory> {
            assert_eq!(size, STRIDE * STACKS_PER_CPU * MAX_SECONDARY);
            Ok(START)
        }

        fn map_stack(address: u64, _size: u64) -> Result<(), OutOfMemory> {
            if address < START + STRIDE * (STACKS_PER_CPU + 2) { Ok(()) } else { Err(OutOfMemory) }
        }
    }

    #[test]
    fn stacks_of_absent_cpus_are_no_stacks() {
        let own = Stacks::new::<OneCpu>(1).unwrap().own;
        assert_eq!(own, START + STRIDE * STACKS_PER_CPU);
        assert!(contains(START + PAGE_SIZE) && contains(own - 1) && is_guard(own - STRIDE));
        assert!(Stacks::new::<OneCpu>(2).is_err());
        let of_second = own + PAGE_SIZE;
        assert!(!contains(of_second) && !is_guard(own));
    }
}
