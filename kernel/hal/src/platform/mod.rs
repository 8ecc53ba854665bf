//! What differs between the machines that an image can run on. Everything else in the kernel is the same on all
//! of them.

mod apic;
mod cpus;
pub mod pc;
mod registers;
mod uhyve;

use core::fmt::Debug;

use hermit_interface::boot_info;
use spin::Once;

use crate::arch::trap::{FLUSH_VECTOR, KICK_VECTOR};
use crate::memory::shootdown;
use apic::Command;

/// A kind of machine. What is not said otherwise is done by the local APICs.
pub trait Platform: Sync + Debug {
    /// Makes the console ready. There is no memory yet.
    fn init(&self);

    /// Makes the interrupt controllers ready.
    fn init_interrupts(&self);

    /// Writes bytes to the console.
    fn write(&self, bytes: &[u8]);

    /// The next byte from the console, if one has arrived.
    fn read(&self) -> Option<u8>;

    /// Whether the console has a byte.
    fn has_input(&self) -> bool;

    /// Asks for an interrupt when the console has input.
    fn listen(&self);

    /// Lets a device's line through.
    fn enable_line(&self, line: u8);

    /// Acknowledges an interrupt line; `false` if it was not really raised. It is not raised again before
    /// [`Self::finish`], however long its device insists.
    fn acknowledge(&self, line: u8) -> bool;

    /// Handles an interrupt, with interrupts masked or off.
    fn interrupt(&self, line: u8);

    /// An interrupt has been handled: its line is let through again.
    fn finish(&self, line: u8);

    /// Raises the timer's line of this CPU after so many nanoseconds, or earlier. Interrupts are masked.
    fn set_timer(&self, nanoseconds: u64) {
        apic::set_timer(nanoseconds);
    }

    /// How many CPUs there are, at least 1 and at most 64.
    fn cpus(&self) -> u32 {
        cpus::count()
    }

    /// Starts the other CPUs; each calls `main` some time later. Called once, by the first CPU.
    fn start_others(&self, main: fn(u32) -> !) {
        cpus::start_others(main);
    }

    /// Makes the interrupt controller of this CPU ready, which is not the first, and has this number.
    fn init_cpu(&self, cpu: u32) {
        apic::init(false);
        cpus::started(cpu);
    }

    /// Raises [`crate::interrupts::KICK`] on another CPU. Interrupts are masked.
    fn kick(&self, cpu: u32) {
        apic::send(cpus::apic_id(cpu), Command::Interrupt(KICK_VECTOR));
    }

    /// Has all other CPUs answer [`crate::memory::shootdown`]. Interrupts are masked.
    fn flush_others(&self) {
        apic::send_to_others(Command::Interrupt(FLUSH_VECTOR));
    }

    /// Stops all other CPUs, whatever they do.
    fn stop_others(&self) {
        if shootdown::has_others() {
            apic::send_to_others(Command::NonMaskable);
        }
    }

    /// Measures the time-stamp counter: ticks per second. Takes some milliseconds.
    fn measure_tsc(&self) -> u64;

    /// Seconds since 1970 (UTC) from the clock that runs while the machine is off.
    fn wall_clock(&self) -> u64;

    /// Ends the machine.
    fn exit(&self, status: u8) -> !;
}

static CURRENT: Once<&'static dyn Platform> = Once::new();

/// Says which machine this is.
pub(crate) fn init(platform: boot_info::Platform) {
    let platform = CURRENT.call_once(|| match platform {
        boot_info::Platform::Pc => &pc::Pc as &dyn Platform,
        // What a process needs is being written.
        boot_info::Platform::Uhyve | boot_info::Platform::Process => &uhyve::Uhyve,
    });
    platform.init();
}

/// The machine.
pub(crate) fn current() -> &'static dyn Platform {
    // Nothing asks before `init`, but a fault that early must end the machine all the same.
    CURRENT.get().copied().unwrap_or(&pc::Pc)
}
