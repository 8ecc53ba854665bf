//! The interrupt descriptor table (IDT): the entry stub and the stack of each vector.

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, Segment};
use x86_64::instructions::tables::lidt;
use x86_64::structures::DescriptorTablePointer;

use super::stacks::InterruptStack;
use super::trap::{DOUBLE_FAULT, FIRST_LINE, MACHINE_CHECK, NON_MASKABLE, TrapHandler};
use super::trap_entry;
use crate::once::Once;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// The IDT: a descriptor for each vector. Where it is zero, the vector is not present.
#[derive(Debug)]
#[repr(C, align(16))]
struct InterruptDescriptorTable([GateDescriptor; 256]);

/// Offset of the last byte of the IDT.
const LIMIT: u16 = 256 * 16 - 1;

const _: () = assert!(size_of::<InterruptDescriptorTable>() == LIMIT as usize + 1);

/// A gate descriptor (SDM volume 3A, section 6.14.1).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct GateDescriptor {
    /// Bits 0 to 15 of the stub's address.
    offset_low: u16,
    /// Code segment of the stub.
    selector: u16,
    /// Index of the stack in the interrupt stack table (IST), counted from 1.
    stack: u8,
    /// Type, privilege level and presence.
    attributes: u8,
    /// Bits 16 to 31 of the stub's address.
    offset_middle: u16,
    /// Bits 32 to 63 of the stub's address.
    offset_high: u32,
    _reserved: u32,
}

/// [`GateDescriptor::attributes`] of an interrupt gate that is present, for privilege level 0.
const INTERRUPT_GATE: u8 = 0x8e;

impl GateDescriptor {
    /// The gate of a vector. Its stub runs in the current code segment, with interrupts disabled.
    fn new(vector: u8, stub: unsafe extern "C" fn()) -> Self {
        let [a, b, c, d, high @ ..] = VirtAddr::from_ptr(stub as *const ()).as_u64().to_le_bytes();
        Self {
            offset_low: u16::from_le_bytes([a, b]),
            selector: CS::get_reg().0,
            stack: stack(vector) as u8 + 1,
            attributes: INTERRUPT_GATE,
            offset_middle: u16::from_le_bytes([c, d]),
            offset_high: u32::from_le_bytes(high),
            _reserved: 0,
        }
    }
}

/// The stack of a vector. Interrupt handlers run with the interrupt flag clear, but exceptions, double faults
/// and non-maskable interrupts can still interrupt them. So each of these groups has its own stack.
fn stack(vector: u8) -> InterruptStack {
    match u64::from(vector) {
        NON_MASKABLE | MACHINE_CHECK => InterruptStack::NonMaskable,
        DOUBLE_FAULT => InterruptStack::DoubleFault,
        _ if vector >= FIRST_LINE => InterruptStack::Device,
        _ => InterruptStack::Fault,
    }
}

/// Loads the IDT on the calling CPU. Afterwards `H` handles its exceptions and interrupts. All CPUs must use
/// the same `H`.
pub(super) fn load<H: TrapHandler>() {
    let table = TABLE.call_once(|| {
        let mut gates = [GateDescriptor::default(); 256];
        for &(vector, stub) in const { &trap_entry::stubs::<H>() } {
            gates[usize::from(vector)] = GateDescriptor::new(vector, stub);
        }
        InterruptDescriptorTable(gates)
    });
    let pointer = DescriptorTablePointer { limit: LIMIT, base: VirtAddr::from_ptr(table) };
    // SAFETY: the table lives for ever and is not changed any more. The address of each gate is that of the
    // vector's stub, which leaves the stack as IRETQ needs it: it pops the error code, which it has pushed
    // itself where the processor pushes none. The TSS of every CPU has a mapped stack at each index of
    // `InterruptStack`.
    unsafe { lidt(&pointer) };
}
