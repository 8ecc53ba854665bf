//! The local interrupt controller of each CPU (SDM volume 3, chapter 12): its timer, what CPUs tell each other, and the
//! way from the old controllers to the first CPU.
//!
//! Its registers are model-specific ones where the processor has an x2APIC, else a page of memory, the same for all CPUs.

use hermit_clock::{NANOSECONDS, Scale};
use spin::Once;
use x86_64::registers::model_specific::{ApicBase, ApicBaseFlags, Msr};

use super::registers::Registers;
use crate::arch::trap::{SPURIOUS_VECTOR, TIMER_VECTOR};
use crate::arch::{cpu, tsc};

/// Register numbers: offsets in the page divided by 16, and added to [`X2APIC`].
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

/// Distance of registers in the page, in words.
const WORDS: usize = 4;

/// The first of the model-specific registers.
const X2APIC: u32 = 0x800;
/// The time-stamp counter's value at which the timer fires, in that mode.
const TSC_DEADLINE: u32 = 0x6e0;

/// Switches the controller on, in the spurious-vector register.
const ENABLE: u32 = 1 << 8;
/// The pin's interrupts come with a vector from the old controllers (ExtINT).
const EXTERNAL: u32 = 0b111 << 8;
const LINE_MASKED: u32 = 1 << 16;
const DEADLINE_MODE: u32 = 0b10 << 17;
const DIVIDE_BY_1: u32 = 0b1011;
/// The command has not been delivered yet.
const DELIVERY_PENDING: u32 = 1 << 12;

/// What is sent to another CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// An interrupt with this vector.
    Interrupt(u8),
    /// A non-maskable interrupt.
    NonMaskable,
    /// Reset.
    Init,
    /// Start in real mode at this page.
    Start(u8),
}

impl Command {
    const ASSERT: u32 = 1 << 14;

    fn bits(self) -> u32 {
        Self::ASSERT
            | match self {
                Self::Interrupt(vector) => vector.into(),
                Self::NonMaskable => 0b100 << 8,
                Self::Init => 0b101 << 8,
                Self::Start(page) => 0b110 << 8 | u32::from(page),
            }
    }
}

/// To all CPUs but the own one.
const ALL_OTHERS: u32 = 0b11 << 18;

/// The page of registers; not mapped with an x2APIC, or without a controller.
static PAGE: Registers = Registers::new();

static FOUND: Once<bool> = Once::new();

/// How the timer is told when to fire.
static TIMER_KIND: Once<Timer> = Once::new();

#[derive(Clone, Copy, Debug)]
enum Timer {
    /// By a value of the time-stamp counter.
    Deadline,
    /// By a count of its own clock.
    Count(Scale),
}

fn uses_msrs() -> bool {
    !PAGE.are_mapped()
}

fn read(register: u32) -> u32 {
    if !uses_msrs() {
        return PAGE.read(register as usize * WORDS);
    }
    // SAFETY: the processor has an x2APIC, which is on.
    let value = unsafe { Msr::new(X2APIC + register).read() };
    // The registers that are read have 32 bits.
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

fn write(register: u32, value: u32) {
    if !uses_msrs() {
        return PAGE.write(register as usize * WORDS, value);
    }
    // SAFETY: the processor has an x2APIC, which is on, and it does not affect memory.
    unsafe { Msr::new(X2APIC + register).write(value.into()) };
}

/// Finds the controller; `false` if there is none.
pub(super) fn find() -> bool {
    *FOUND.call_once(find_registers)
}

fn find_registers() -> bool {
    if !cpu::has_apic() {
        return false;
    }
    if !cpu::has_x2apic() {
        let (frame, _) = ApicBase::read();
        // SAFETY: the processor says that the controller is there, which does not affect memory.
        return unsafe { PAGE.map(frame.start_address().as_u64()) }.is_ok();
    }
    true
}

/// Switches on the controller of this CPU. Only the first one gets what the old controllers raise.
pub(super) fn init(first: bool) {
    if uses_msrs() {
        let (frame, flags) = ApicBase::read();
        // SAFETY: the mode is changed where the processor has it; nothing uses the page of registers.
        unsafe { ApicBase::write(frame, flags | ApicBaseFlags::LAPIC_ENABLE | ApicBaseFlags::X2APIC_ENABLE) };
    }
    write(SPURIOUS, ENABLE | u32::from(SPURIOUS_VECTOR));
    write(LINT0, if first { EXTERNAL } else { LINE_MASKED });
    write(TIMER_DIVIDE, DIVIDE_BY_1);
    let mode = if cpu::has_tsc_deadline() { DEADLINE_MODE } else { 0 };
    write(TIMER, mode | u32::from(TIMER_VECTOR));
}

/// Whether there is a controller.
pub(super) fn is_present() -> bool {
    *FOUND.get().unwrap_or(&false)
}

/// Whether commands reach the CPU with this identifier.
pub(super) fn can_reach(id: u32) -> bool {
    uses_msrs() || id < 0xff
}

/// The identifier of this CPU's controller.
pub(super) fn id() -> u32 {
    if uses_msrs() { read(ID) } else { read(ID) >> 24 }
}

/// Says that an interrupt has been dealt with.
pub(super) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

fn send_raw(destination: u32, bits: u32) {
    if uses_msrs() {
        let value = u64::from(destination) << 32 | u64::from(bits);
        // What was written to memory before must be seen by whoever gets this (SDM volume 3, 12.12.3).
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        // SAFETY: every 64-bit processor has the instruction, which only waits.
        unsafe { core::arch::asm!("lfence", options(nostack, preserves_flags)) };
        // SAFETY: interrupts do not affect memory; CPUs that are started are given code of the kernel.
        unsafe { Msr::new(X2APIC + COMMAND).write(value) };
    } else {
        while read(COMMAND) & DELIVERY_PENDING != 0 {
            core::hint::spin_loop();
        }
        write(COMMAND_HIGH, destination << 24);
        write(COMMAND, bits);
    }
}

/// Sends something to the CPU whose controller has this identifier. Interrupts must be masked, so that nobody else sends
/// in between.
pub(super) fn send(id: u32, command: Command) {
    send_raw(id, command.bits());
}

/// Sends something to all other CPUs.
pub(super) fn send_to_others(command: Command) {
    send_raw(0, command.bits() | ALL_OTHERS);
}

/// Raises the timer's interrupt after so many nanoseconds, or earlier if that is far away.
pub(super) fn set_timer(nanoseconds: u64) {
    match *TIMER_KIND.call_once(timer) {
        Timer::Deadline => {
            let ticks = crate::clock::ticks(nanoseconds);
            // SAFETY: the processor has the register; an interrupt does not affect memory.
            unsafe { Msr::new(TSC_DEADLINE).write(tsc::now().saturating_add(ticks)) };
        }
        Timer::Count(scale) => {
            let count = u32::try_from(scale.ticks(nanoseconds)).unwrap_or(u32::MAX);
            write(TIMER_COUNT, count.max(1));
        }
    }
}

fn timer() -> Timer {
    if cpu::has_tsc_deadline() {
        return Timer::Deadline;
    }
    let known = hypervisor_frequency();
    Timer::Count(Scale::new(known.unwrap_or_else(measure)))
}

/// Ticks of the timer per second as a hypervisor states them: leaf 4000_0010h, ebx in kHz (VMware, KVM).
fn hypervisor_frequency() -> Option<u64> {
    let leaf = cpu::hypervisor_leaf(0x10)?;
    Some(u64::from(leaf.ebx) * 1000).filter(|&frequency| frequency != 0)
}

/// How long the timer is measured, in nanoseconds.
const MEASURE: u64 = 1_000_000;

/// How often the timer is read for one reading.
const TRIES: usize = 4;

/// Ticks of the timer per second, measured against the time-stamp counter.
fn measure() -> u64 {
    let line = read(TIMER);
    write(TIMER, line | LINE_MASKED);
    write(TIMER_COUNT, u32::MAX);
    let (first, start) = reading();
    let (mut ticks, mut passed) = (0, 0);
    while passed < MEASURE {
        let (count, now) = reading();
        (ticks, passed) = (u64::from(first.wrapping_sub(count)), now - start);
    }
    write(TIMER_COUNT, 0);
    write(TIMER, line);
    // A timer that does not count is as good as a slow one.
    (ticks * NANOSECONDS / passed).max(1)
}

/// The timer's count and the time, read together: of a few tries that which took the least, since any may be interrupted.
fn reading() -> (u32, u64) {
    let readings = core::array::from_fn::<_, TRIES, _>(|_| {
        let before = crate::clock::monotonic();
        let count = read(TIMER_CURRENT);
        let took = crate::clock::monotonic() - before;
        (took, count, before + took / 2)
    });
    let [first, ..] = readings;
    let (_, count, time) = readings.into_iter().min_by_key(|(took, ..)| *took).unwrap_or(first);
    (count, time)
}
