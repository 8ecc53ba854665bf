//! What differs between the machines that an image can run on. Everything else in the kernel is the same on all
//! of them.

mod apic;
mod cpus;
pub(crate) mod pc;
pub(crate) mod process;
mod registers;
mod uhyve;

use core::fmt::Debug;

use hermit_interface::boot_info::{self, BootInfo};
use hermit_interface::exit::NOT_STARTED;
use hermit_paging::Access;
use spin::Once;

use crate::arch::cpu;
use crate::arch::processor::Processor;
use crate::arch::trap::{FLUSH_VECTOR, KICK_VECTOR};
use crate::devices::Window;
use crate::memory::{self, OutOfMemory, shootdown};
use apic::Command;

/// A kind of machine. What is not said otherwise is done by instructions that take privilege, and by the local APICs; the console has no
/// input, lines take no care, and the hypervisor has told the rest.
pub(crate) trait Platform: Sync + Debug {
    /// Prepares the CPU that calls for everything else. The first CPU does so before anything else.
    fn enter(&self, processor: &Processor) {
        processor.enter();
    }

    /// Makes the console ready. There is no memory yet.
    fn init(&self) {}

    /// Whether the kernel may use instructions that take privilege.
    fn is_privileged(&self) -> bool {
        true
    }

    /// Lets interrupts interrupt this CPU, for the first time.
    fn enable_interrupts(&self) {
        cpu::enable_interrupts();
    }

    /// Waits for an interrupt, unless somebody is `woken` already: none is missed between the question and the wait. May
    /// return for no reason.
    fn wait_unless(&self, woken: &dyn Fn() -> bool) {
        cpu::wait_unless(woken);
    }

    /// Does what was put off by noting [`crate::interrupts::DEFERRED_BIT`]. Interrupts are masked.
    fn deferred(&self) {}

    /// Lets another CPU go on that this one waits for.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Stops this CPU for good.
    fn stop(&self) -> ! {
        cpu::stop()
    }

    /// Page tables map memory from now on; what is there already is replaced. `access` is not for devices.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then nothing has changed.
    fn map(&self, address: u64, physical: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        let _ = (address, physical, size, access);
        Ok(())
    }

    /// Page tables will no longer map addresses, which are whole pages of theirs.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then nothing has changed.
    fn unmap(&self, address: u64, size: u64) -> Result<(), OutOfMemory> {
        let _ = (address, size);
        Ok(())
    }

    /// Page tables will allow something else with addresses, all of which are mapped.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then a part may have changed.
    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        let _ = (address, size, access);
        Ok(())
    }

    /// Whether mappings can be made that are not needed to go on. The memory lock is held.
    fn can_map_more(&self) -> bool {
        true
    }

    /// Makes all CPUs forget what page tables no longer say. The memory lock is held.
    fn forget_mappings(&self) {
        shootdown::flush_everywhere();
    }

    /// The registers of a device, for good; there must be no memory at their addresses.
    fn registers(&self, physical: u64, size: u64) -> Option<Window> {
        Window::mapped(memory::map_registers(physical, size).ok()?, size)
    }

    /// Makes the interrupt controllers ready.
    fn init_interrupts(&self);

    /// Writes bytes to the console.
    fn write(&self, bytes: &[u8]);

    /// The next byte from the console, if one has arrived.
    fn read(&self) -> Option<u8> {
        None
    }

    /// Whether the console has a byte.
    fn has_input(&self) -> bool {
        false
    }

    /// Asks for an interrupt when the console has input.
    fn listen(&self) {}

    /// Lets a device's line through.
    fn enable_line(&self, line: u8) {
        let _ = line;
    }

    /// Acknowledges an interrupt line; `false` if it was not really raised. It is not raised again before
    /// [`Self::finish`], however long its device insists.
    fn acknowledge(&self, line: u8) -> bool;

    /// Handles an interrupt, with interrupts masked or off.
    fn interrupt(&self, line: u8) {
        let _ = line;
    }

    /// An interrupt has been handled: its line is let through again.
    fn finish(&self, line: u8) {
        let _ = line;
    }

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
    fn measure_tsc(&self) -> u64 {
        self.write(b"hermit: fatal error: the hypervisor does not say how fast the time-stamp counter is\n");
        self.exit(NOT_STARTED)
    }

    /// Seconds since 1970 (UTC) from the clock that runs while the machine is off.
    fn wall_clock(&self) -> u64 {
        // Boot information has it; a hypervisor that does not know the date is in 1970.
        0
    }

    /// Ends the machine.
    fn exit(&self, status: u8) -> !;
}

static CURRENT: Once<&'static dyn Platform> = Once::new();

/// Says which machine this is. The boot information is not checked yet: what makes no sense is a PC.
pub(crate) fn choose(info: &BootInfo) {
    CURRENT.call_once(|| match boot_info::Platform::from_number(info.platform) {
        Some(boot_info::Platform::Uhyve) => &uhyve::Uhyve as &dyn Platform,
        Some(boot_info::Platform::Process) => process::find(info),
        Some(boot_info::Platform::Pc) | None => &pc::Pc,
    });
}

/// The machine.
pub(crate) fn current() -> &'static dyn Platform {
    // Nothing asks before `choose`, but a fault that early must end the machine all the same.
    CURRENT.get().copied().unwrap_or(&pc::Pc)
}
