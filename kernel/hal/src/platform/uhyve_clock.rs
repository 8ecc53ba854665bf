//! The host's clock on uhyve ([`hermit_interface::machine::CLOCK`]).

use hermit_clock::HostTime;
use hermit_interface::machine::{CLOCK, CLOCK_FREQUENCY, CLOCK_WALL};
use hermit_virtio::transport::pci::MapRegisters;

use crate::devices::{Mapper, Window};
use crate::interrupts::Masked;
use crate::once::Once;

/// Value of registers that the hypervisor does not have.
const UNKNOWN: u64 = u64::MAX;

/// The registers; `None` if they cannot be mapped.
static REGISTERS: Once<Option<Window>> = Once::new();

/// The host's wall clock now.
pub(super) fn wall_clock() -> Option<HostTime> {
    read(CLOCK_WALL).map(HostTime::exact)
}

/// Frequency of the time-stamp counter in Hz, as the host has measured it up to now.
pub(super) fn frequency() -> Option<u64> {
    read(CLOCK_FREQUENCY)
}

fn read(offset: usize) -> Option<u64> {
    let registers = REGISTERS.get().unwrap_or_else(map).as_ref()?;
    Some(registers.read_u64(offset)).filter(|&value| value != UNKNOWN)
}

#[cold]
fn map() -> &'static Option<Window> {
    // Masked, since other CPUs spin until this call has made the value: a preempted thread would keep them
    // waiting.
    let _masked = Masked::new();
    REGISTERS.call_once(|| Mapper.map(CLOCK.start, CLOCK.size).ok())
}
