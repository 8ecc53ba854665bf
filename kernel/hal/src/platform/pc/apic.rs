//! The local interrupt controller (SDM volume 3, chapter 12), so far only as the way from the old controllers to the
//! processor: firmware for PCs opens it, that of small virtual machines does not.

use core::ptr::NonNull;

use x86_64::registers::model_specific::ApicBase;

use crate::arch::cpu;
use crate::memory::map_device_page;

/// Register offsets, in words.
const SPURIOUS_VECTOR: usize = 0xf0 / 4;
const LINT0: usize = 0x350 / 4;

/// Switches the controller on, in the spurious-vector register; the vector is one that nobody raises.
const ENABLE: u32 = 1 << 8 | 0xff;

/// The pin's interrupts come with a vector from the old controllers (ExtINT).
const EXTERNAL: u32 = 0b111 << 8;

/// Lets the old controllers' interrupts through to the processor.
pub(super) fn pass_on_pic() {
    if !cpu::has_apic() {
        return;
    }
    let (frame, _) = ApicBase::read();
    let Ok(registers) = map_device_page(frame.start_address().as_u64()) else { return };
    write(registers, SPURIOUS_VECTOR, ENABLE);
    write(registers, LINT0, EXTERNAL);
}

fn write(registers: NonNull<u32>, register: usize, value: u32) {
    // SAFETY: the offset is within the page of registers.
    let register = unsafe { registers.add(register) };
    // SAFETY: the page is mapped to the controller's registers, which do not affect memory.
    unsafe { register.write_volatile(value) };
}
