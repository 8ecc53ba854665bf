//! A hostile guest that drives virtio devices directly, by valid and malformed queues and requests.
//!
//! The guest's instructions are the same in both engines, except for those that [`Machine`] emits.

pub(crate) mod attacks;
pub(crate) mod disks;
mod driver;

use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

pub(crate) use self::driver::Driver;

/// Result of assembling instructions.
pub(crate) type Assembled = Result<(), IcedError>;

/// Builder of a guest for one of the engines. r15 holds the virtual address of physical address 0.
pub(crate) trait Machine {
    /// Size of the guest's memory in bytes.
    const MEMORY: u64;

    /// The assembler.
    fn code(&mut self) -> &mut CodeAssembler;

    /// Writes a register of a device, at an offset in its window (virtio 1.2 §4.2.2).
    fn write_register(&mut self, device: u32, offset: u64, value: u32) -> Assembled;

    /// Writes r12, the counter of [`Driver::repeat`], to a register of a device.
    fn write_counter(&mut self, device: u32, offset: u64) -> Assembled;

    /// Reads a register of a device into eax.
    fn read_register(&mut self, device: u32, offset: u64) -> Assembled;

    /// Notifies a device about a queue, as a driver on this engine does.
    fn notify(&mut self, device: u32, queue: u32) -> Assembled;

    /// Exits with the status in al.
    fn exit_with_al(&mut self) -> Assembled;
}
