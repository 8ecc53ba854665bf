//! Platform operations: what the hal needs of the machine that it runs on, one trait for each concern.
//!
//! `crate::platform` implements the traits for each kind of machine, and the other layers of the hal call
//! them (compare `smp_ops`, `pv_ops` and `irq_chip` of Linux). So these layers depend on the traits, and not
//! on a platform. The kernel chooses one platform when it starts ([`set`]). A call of an operation is one
//! indirect call.

mod console;
mod cpu;
mod device;
mod irq;
mod mmu;
mod power;
mod smp;
mod time;

use crate::once::Once;

pub(crate) use console::PlatformConsole;
pub use console::Stream;
pub(crate) use cpu::CpuControl;
pub(crate) use device::{DeviceAccess, RegisterAccess, RegisterIo};
pub(crate) use irq::IrqChip;
pub(crate) use mmu::{MemoryReturn, Mmu};
pub(crate) use power::Power;
pub(crate) use smp::Smp;
pub(crate) use time::{CpuTimer, HostClock, TimeSource};

/// A kind of machine.
pub(crate) trait Platform:
    PlatformConsole + CpuControl + DeviceAccess + IrqChip + Mmu + Power + Smp + TimeSource + CpuTimer
{
}

/// The operations of the chosen platform.
struct Operations {
    console: &'static dyn PlatformConsole,
    cpu: &'static dyn CpuControl,
    device_access: &'static dyn DeviceAccess,
    irq_chip: &'static dyn IrqChip,
    mmu: &'static dyn Mmu,
    power: &'static dyn Power,
    smp: &'static dyn Smp,
    time_source: &'static dyn TimeSource,
    timer: &'static dyn CpuTimer,
}

static OPERATIONS: Once<Operations> = Once::new();

/// Sets the platform. Only the first call has an effect.
pub(crate) fn set(platform: &'static impl Platform) {
    OPERATIONS.call_once(|| Operations {
        console: platform,
        cpu: platform,
        device_access: platform,
        irq_chip: platform,
        mmu: platform,
        power: platform,
        smp: platform,
        time_source: platform,
        timer: platform,
    });
}

#[inline]
fn operations() -> &'static Operations {
    match OPERATIONS.get() {
        Some(operations) => operations,
        // Not reached: the kernel calls `set` before it sets up the exception handlers and the heap, and no
        // code before that calls an operation.
        None => crate::arch::cpu::stop(),
    }
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident: $concern:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub(crate) fn $name() -> &'static dyn $concern {
                operations().$name
            }
        )*
    };
}

accessors! {
    /// The platform's console.
    console: PlatformConsole;
    /// Control of the calling CPU.
    cpu: CpuControl;
    /// The platform's ways to reach devices.
    device_access: DeviceAccess;
    /// The interrupt controllers.
    irq_chip: IrqChip;
    /// Maintenance of mappings in addition to the page tables.
    mmu: Mmu;
    /// Shutdown of the machine, and the power button.
    power: Power;
    /// Start of the secondary CPUs, and interrupts between CPUs.
    smp: Smp;
    /// Sources of the time of day and of the counter's frequency.
    time_source: TimeSource;
    /// The timer of the calling CPU.
    timer: CpuTimer;
}
