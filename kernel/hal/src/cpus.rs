//! The CPUs of the machine.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::cpu;
use crate::arch::local::{self, Base};
use crate::arch::processor::Processor;
use crate::arch::stacks::StackMemory;
use crate::arch::startup::{self, CpuResources};
use crate::cpu_local::{self, CpuLocal};
use crate::fallible::OutOfMemory;
use crate::interrupts::Masked;
use crate::once::Once;
use crate::ops;
use crate::{clock, memory};

static MAIN: Once<fn(Masked) -> !> = Once::new();

/// Number of CPUs of the machine, from 1 to 64.
#[must_use]
pub fn count() -> u32 {
    ops::smp().cpu_count()
}

/// String instructions that move memory faster than vector registers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringMoves {
    /// None is known to be faster.
    None,
    /// `rep movsq` and `rep stosq`, on an emulated processor.
    Words,
    /// `rep movsb` and `rep stosb`, for long pieces.
    Bytes,
}

/// The string instructions that move memory faster than vector registers do. The first call may take some
/// microseconds.
#[must_use]
pub fn string_moves() -> StringMoves {
    const UNKNOWN: u8 = 2;
    static ARE_EMULATED: AtomicU8 = AtomicU8::new(UNKNOWN);
    let mut are_emulated = ARE_EMULATED.load(Relaxed);
    if are_emulated == UNKNOWN {
        are_emulated = ops::cpu().is_emulated().into();
        ARE_EMULATED.store(are_emulated, Relaxed);
    }
    match are_emulated {
        0 if cpu::has_fast_strings() => StringMoves::Bytes,
        0 => StringMoves::None,
        _ => StringMoves::Words,
    }
}

/// True if programs may use AVX2 and FMA.
#[must_use]
pub fn has_wide_vectors() -> bool {
    cpu::has_wide_vectors()
}

/// Starts all CPUs except the first. Each of them calls `main` later, with interrupts masked once. Called
/// once. CPUs for which there is no memory are not started.
pub fn start_others(main: fn(Masked) -> !) {
    let count = count();
    if count > 1 {
        clock::prepare_for_smp();
        MAIN.call_once(|| main);
        ops::smp().start_secondary(startup::prepare::<Resources>(count, enter));
    }
}

/// Allocation of the memory of a secondary CPU before it runs: addresses, a stack, its CPU-local block.
enum Resources {}

impl StackMemory for Resources {
    fn reserve_addresses(size: u64) -> Result<u64, OutOfMemory> {
        memory::reserve_addresses(size)
    }

    fn map_stack(address: u64, size: u64) -> Result<(), OutOfMemory> {
        memory::map_kernel_stack(address, size)
    }
}

impl CpuResources for Resources {
    fn local(number: u32) -> Result<Base, OutOfMemory> {
        memory::leak(CpuLocal::new(number)).map(CpuLocal::base).ok_or(OutOfMemory)
    }
}

/// Entry of a secondary CPU, on its own stack: enables its interrupts and calls `main`.
fn enter(processor: &'static Processor) -> ! {
    ops::cpu().enter(processor);
    ops::smp().init_secondary(local::number());
    ops::cpu().enable_interrupts();
    memory::join_heap(local::number());
    match MAIN.get() {
        Some(main) => main(Masked::inherited()),
        None => ops::cpu().stop(),
    }
}

/// Sends the reschedule IPI to another CPU: raises [`crate::interrupts::RESCHEDULE`] there.
pub fn send_reschedule(masked: &Masked, cpu: u32) {
    let _ = masked;
    ops::smp().send_reschedule(cpu);
}

/// A static variable with a value for each CPU. Only one such variable can have values.
#[derive(Debug)]
pub struct PerCpu<T: 'static> {
    /// Gives the variable a size, and so an address of its own. The address identifies the variable.
    _identity: AtomicU8,
    value: PhantomData<&'static T>,
}

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerCpu<T> {
    /// A variable without a value on any CPU.
    #[must_use]
    pub const fn new() -> Self {
        Self { _identity: AtomicU8::new(0), value: PhantomData }
    }

    fn identity(&'static self) -> *mut () {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl<T: Sync> PerCpu<T> {
    /// Sets the value on this CPU.
    ///
    /// # Panics
    ///
    /// If a value is set on this CPU already.
    pub fn set(&'static self, masked: &Masked, value: &'static T) {
        let _ = masked;
        let local = cpu_local::current();
        assert!(local.value_owner.load(Relaxed).is_null(), "there is one per-CPU variable");
        local.value.store(ptr::from_ref(value).cast_mut().cast(), Relaxed);
        local.value_owner.store(self.identity(), Relaxed);
    }

    /// The value on this CPU, if it is set.
    #[inline]
    pub fn get(&'static self, masked: &Masked) -> Option<&'static T> {
        let _ = masked;
        let value = cpu_local::value(self.identity())?;
        // SAFETY: the owner is this variable, so `set` of this variable has stored the pointer, which it made
        // from a `&'static T`.
        let value = unsafe { NonNull::new_unchecked(value.cast::<T>()) };
        // SAFETY: `set` has stored a `&'static T`, which never ends; `T` is `Sync`, so that any thread on
        // this CPU may use it.
        Some(unsafe { value.as_ref() })
    }
}
