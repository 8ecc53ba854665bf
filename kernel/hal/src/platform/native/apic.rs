//! The local APIC of each CPU (SDM volume 3, chapter "Advanced Programmable Interrupt Controller"): its
//! timer, inter-processor interrupts, and the connection of the 8259A to the first CPU.
//!
//! Its registers are MSRs if the processor has x2APIC mode. Otherwise they are a page of memory, at the same
//! address on all CPUs. [`find`] decides this once; each CPU then calls [`init`]. If the timer has
//! TSC-deadline mode, it expires at an absolute value of the time-stamp counter. Otherwise it counts down at
//! a frequency of its own, which the hypervisor states or [`measure`] measures.

use hermit_clock::{NANOSECONDS, TickScale};
use hermit_virtio::transport::pci::MsiMessage;
use x86_64::registers::model_specific::{ApicBase, ApicBaseFlags, Msr};

use super::register_page::RegisterPage;
use crate::arch::counter;
use crate::arch::x86_64::cpu;
use crate::arch::x86_64::trap::{FIRST_LINE, SPURIOUS_VECTOR, TIMER_VECTOR};
use crate::clock;
use crate::once::Once;

/// Register numbers: the offset in the page divided by 16, or the offset from [`X2APIC`].
const ID: u32 = 0x02;
const END_OF_INTERRUPT: u32 = 0x0b;
const SPURIOUS: u32 = 0x0f;
const COMMAND: u32 = 0x30;
const COMMAND_HIGH: u32 = 0x31;
const TIMER: u32 = 0x32;
const LINT0: u32 = 0x35;
const TIMER_COUNT: u32 = 0x38;
const TIMER_CURRENT: u32 = 0x39;
const TIMER_DIVIDE: u32 = 0x3e;

/// Distance of registers in the page, in words of 32 bits.
const WORDS: usize = 4;

/// Number of the first x2APIC MSR.
const X2APIC: u32 = 0x800;
/// `IA32_TSC_DEADLINE`: the value of the time-stamp counter at which the timer expires, in TSC-deadline mode.
const TSC_DEADLINE: u32 = 0x6e0;

/// Address of MSI messages to the local APIC with identifier 0, in physical destination mode (SDM volume 3,
/// 11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;

/// Position of the destination's identifier in the address of a message, in bits.
const MSI_DESTINATION: u32 = 12;

/// The 8-bit identifier that addresses all local APICs. The identifiers of single local APICs in messages,
/// and in IPIs without x2APIC, are below it.
const BROADCAST: u32 = 0xff;

/// APIC software enable, in the spurious-interrupt vector register.
const ENABLE: u32 = 1 << 8;
/// Delivery mode ExtINT of LINT0: the vector comes from the 8259A.
const EXTERNAL: u32 = 0b111 << 8;
const LINE_MASKED: u32 = 1 << 16;
const DEADLINE_MODE: u32 = 0b10 << 17;
const DIVIDE_BY_1: u32 = 0b1011;
/// Delivery status: the last command has not been delivered yet.
const DELIVERY_PENDING: u32 = 1 << 12;

/// An inter-processor interrupt.
#[derive(Clone, Copy, Debug)]
pub(in crate::platform) enum Ipi {
    /// An interrupt with this vector.
    Fixed(u8),
    /// A non-maskable interrupt.
    Nmi,
    /// INIT: resets the CPU.
    Init,
    /// STARTUP: the CPU starts in real mode at this page.
    Startup(u8),
}

impl Ipi {
    const ASSERT: u32 = 1 << 14;

    fn bits(self) -> u32 {
        Self::ASSERT
            | match self {
                Self::Fixed(vector) => vector.into(),
                Self::Nmi => 0b100 << 8,
                Self::Init => 0b101 << 8,
                Self::Startup(page) => 0b110 << 8 | u32::from(page),
            }
    }
}

/// Destination shorthand: all excluding self.
const ALL_OTHERS: u32 = 0b11 << 18;

/// The page of registers. It stays unmapped if the local APIC has x2APIC mode, or if there is no local APIC.
static PAGE: RegisterPage = RegisterPage::new();

static FOUND: Once<bool> = Once::new();

/// Mode of the timer, on all CPUs.
static TIMER_MODE: Once<TimerMode> = Once::new();

#[derive(Clone, Copy, Debug)]
enum TimerMode {
    /// TSC-deadline: the timer expires at a value of the time-stamp counter.
    Deadline,
    /// One-shot: the timer counts down at a frequency of its own.
    OneShot(TickScale),
}

/// Returns true if the registers are MSRs. Only called after [`find`] has found a local APIC.
fn uses_msrs() -> bool {
    !PAGE.is_mapped()
}

/// MSR of the x2APIC register with this number. Reading such a register does not affect memory. Nor does
/// writing it, for the registers that this module writes.
const fn msr(register: u32) -> Msr {
    Msr::new(X2APIC + register)
}

fn read(register: u32) -> u32 {
    if !uses_msrs() {
        return PAGE.read(register as usize * WORDS);
    }
    // SAFETY: the registers are MSRs, which means that `find` has found x2APIC mode in CPUID and `init` has
    // enabled it on this CPU; reading them does not affect memory.
    let value = unsafe { msr(register).read() };
    // All registers that this module reads have 32 bits.
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

fn write(register: u32, value: u32) {
    if !uses_msrs() {
        return PAGE.write(register as usize * WORDS, value);
    }
    // SAFETY: the registers are MSRs, which means that `find` has found x2APIC mode in CPUID and `init` has
    // enabled it on this CPU. The registers that this module writes configure interrupts, and all vectors of
    // these interrupts have handlers.
    unsafe { msr(register).write(value.into()) };
}

/// Finds the local APIC. Returns false if there is none.
pub(in crate::platform) fn find() -> bool {
    *FOUND.call_once(find_registers)
}

fn find_registers() -> bool {
    if !cpu::has_apic() {
        return false;
    }
    if !cpu::has_x2apic() {
        let (frame, _) = ApicBase::read();
        // SAFETY: according to IA32_APIC_BASE this is the page of the local APIC, whose registers do not
        // affect memory.
        return unsafe { PAGE.map(frame.start_address().as_u64()) }.is_ok();
    }
    true
}

/// Enables the local APIC of this CPU. With `takes_external`, the local APIC also accepts the interrupts of
/// the 8259A.
pub(in crate::platform) fn init(takes_external: bool) {
    if uses_msrs() {
        let (frame, flags) = ApicBase::read();
        // SAFETY: CPUID reports x2APIC mode, since otherwise `find` would have mapped the page. The page of
        // registers vanishes in x2APIC mode, but it is not mapped, so nothing uses it.
        unsafe { ApicBase::write(frame, flags | ApicBaseFlags::LAPIC_ENABLE | ApicBaseFlags::X2APIC_ENABLE) };
    }
    write(SPURIOUS, ENABLE | u32::from(SPURIOUS_VECTOR));
    write(LINT0, if takes_external { EXTERNAL } else { LINE_MASKED });
    write(TIMER_DIVIDE, DIVIDE_BY_1);
    let mode = if cpu::has_tsc_deadline() { DEADLINE_MODE } else { 0 };
    write(TIMER, mode | u32::from(TIMER_VECTOR));
}

/// Returns true if [`find`] has found a local APIC.
pub(in crate::platform) fn is_present() -> bool {
    *FOUND.get().unwrap_or(&false)
}

/// Returns true if IPIs can be sent to the local APIC with this identifier. Without x2APIC, identifiers of 8
/// bits only can be addressed.
pub(in crate::platform) fn can_reach(id: u32) -> bool {
    uses_msrs() || id < BROADCAST
}

/// Identifier of this CPU's local APIC.
pub(in crate::platform) fn id() -> u32 {
    if uses_msrs() { read(ID) } else { read(ID) >> 24 }
}

/// Returns true if an interrupt message can have the local APIC with this identifier as destination.
pub(in crate::platform) fn has_message_address(id: u32) -> bool {
    id < BROADCAST
}

/// Signals the end of an interrupt (EOI).
pub(in crate::platform) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Message by which a device raises a line. Its destination is the first identifier in `ids` that a message
/// can address. Returns `None` if a message can address none of them.
pub(in crate::platform) fn msi_message<const N: usize>(ids: [u32; N], line: u8) -> Option<MsiMessage> {
    let id = ids.into_iter().find(|&id| has_message_address(id))?;
    let address = MSI_ADDRESS | u64::from(id) << MSI_DESTINATION;
    Some(MsiMessage { address, data: u32::from(FIRST_LINE + line) })
}

fn send_raw(destination: u32, bits: u32) {
    if uses_msrs() {
        let value = u64::from(destination) << 32 | u64::from(bits);
        // WRMSR to an x2APIC register is not serializing: MFENCE and LFENCE make earlier stores visible to
        // the receiver first (SDM volume 3, 12.12.3).
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        // SAFETY: LFENCE is part of every 64-bit processor, and has no effect but to wait for earlier loads.
        unsafe { core::arch::asm!("lfence", options(nostack, preserves_flags)) };
        // SAFETY: x2APIC mode is enabled (see `write`). The vectors of IPIs have handlers; a CPU that a
        // STARTUP IPI starts executes the trampoline.
        unsafe { msr(COMMAND).write(value) };
    } else {
        while read(COMMAND) & DELIVERY_PENDING != 0 {
            core::hint::spin_loop();
        }
        write(COMMAND_HIGH, destination << 24);
        write(COMMAND, bits);
    }
}

/// Sends an IPI to the CPU whose local APIC has this identifier. Interrupts must be masked, so that no other
/// code of this CPU writes the command register between its two halves.
pub(in crate::platform) fn send(id: u32, ipi: Ipi) {
    send_raw(id, ipi.bits());
}

/// Sends an IPI to all other CPUs. Interrupts must be masked.
pub(in crate::platform) fn send_to_others(ipi: Ipi) {
    send_raw(0, ipi.bits() | ALL_OTHERS);
}

/// Sets the timer to expire in `timeout_ns`. It expires earlier if the timeout is longer than the timer can
/// count.
pub(in crate::platform) fn set_timer(timeout_ns: u64) {
    match *TIMER_MODE.call_once(timer_mode) {
        TimerMode::Deadline => {
            let ticks = clock::ticks(timeout_ns);
            // SAFETY: CPUID reports TSC-deadline mode, and the only effect is an interrupt whose vector has a
            // handler.
            unsafe { Msr::new(TSC_DEADLINE).write(counter::now().saturating_add(ticks)) };
        }
        TimerMode::OneShot(scale) => {
            let count = u32::try_from(scale.ticks(timeout_ns)).unwrap_or(u32::MAX);
            write(TIMER_COUNT, count.max(1));
        }
    }
}

fn timer_mode() -> TimerMode {
    if cpu::has_tsc_deadline() {
        return TimerMode::Deadline;
    }
    let known = hypervisor_frequency();
    TimerMode::OneShot(TickScale::new(known.unwrap_or_else(measure)))
}

/// Ticks of the timer per second, if a hypervisor states them: CPUID leaf 4000_0010h has them in EBX, in kHz
/// (VMware, KVM).
fn hypervisor_frequency() -> Option<u64> {
    let leaf = cpu::hypervisor_leaf(0x10)?;
    Some(u64::from(leaf.ebx) * 1000).filter(|&frequency| frequency != 0)
}

/// Minimum duration of the measurement of the timer's frequency, in nanoseconds.
const MEASUREMENT_NS: u64 = 1_000_000;

/// Number of attempts for each [`reading`], which uses the fastest one.
const ATTEMPTS: usize = 4;

/// Measures the ticks of the timer per second against the monotonic clock.
fn measure() -> u64 {
    let line = read(TIMER);
    write(TIMER, line | LINE_MASKED);
    write(TIMER_COUNT, u32::MAX);
    let (first, start) = reading();
    let (mut ticks, mut passed) = (0, 0);
    while passed < MEASUREMENT_NS {
        let (count, now) = reading();
        (ticks, passed) = (u64::from(first.wrapping_sub(count)), now - start);
    }
    write(TIMER_COUNT, 0);
    write(TIMER, line);
    // A timer that does not count gets a frequency of 1 Hz, so that the frequency is never 0.
    (ticks * NANOSECONDS / passed).max(1)
}

/// Reads the timer's count and the monotonic time together, and returns both. Uses the fastest of a few
/// attempts, since the hypervisor may interrupt any attempt between the two readings.
fn reading() -> (u32, u64) {
    let readings = core::array::from_fn::<_, ATTEMPTS, _>(|_| {
        let before = clock::monotonic();
        let count = read(TIMER_CURRENT);
        let took = clock::monotonic() - before;
        (took, count, before + took / 2)
    });
    let [first, ..] = readings;
    let (_, count, time) = readings.into_iter().min_by_key(|(took, ..)| *took).unwrap_or(first);
    (count, time)
}

#[cfg(test)]
mod tests {
    use super::{FIRST_LINE, msi_message};
    use hermit_virtio::transport::pci::MsiMessage;

    #[test]
    fn msi_message_addresses_the_local_apic() {
        let message = |address| Some(MsiMessage { address, data: u32::from(FIRST_LINE) + 20 });
        assert_eq!(msi_message([0], 20), message(0xfee0_0000));
        assert_eq!(msi_message([5, 0], 20), message(0xfee0_5000));
        assert_eq!(msi_message([0xfe], 20), message(0xfeef_e000));
        assert_eq!([0xff, 0x100, u32::MAX].map(|id| msi_message([id], 20)), [None; 3]);
    }

    #[test]
    fn msi_message_addresses_the_next_cpu_if_an_identifier_has_more_than_8_bits() {
        let first_cpu = msi_message([3], 20);
        assert!(first_cpu.is_some());
        assert_eq!([0xff, 0x100].map(|id| msi_message([id, 3], 20)), [first_cpu; 2]);
    }
}
