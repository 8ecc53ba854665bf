//! A hostile guest that drives the file-system device directly, to reach files outside of the mounted folder.
//!
//! The guest's instructions are the same in both engines, except for those that [`Machine`] emits.

mod attempts;
mod driver;
mod folder;

use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

pub(crate) use self::attempts::{attempt_all, race};
pub(crate) use self::folder::MountedFolder;

/// Result of assembling instructions.
pub(crate) type Assembled = Result<(), IcedError>;

/// Builder of a guest for one of the engines. r15 holds the virtual address of physical address 0.
pub(crate) trait Machine {
    /// The assembler.
    fn code(&mut self) -> &mut CodeAssembler;

    /// Writes a register of the file-system device, at an offset in its window (virtio 1.2 §4.2.2).
    fn write_register(&mut self, offset: u64, value: u32) -> Assembled;

    /// Reads a register of the file-system device into eax.
    fn read_register(&mut self, offset: u64) -> Assembled;

    /// Notifies the device about a queue.
    fn notify(&mut self, queue: u32) -> Assembled;

    /// Exits with a status.
    fn exit_with(&mut self, status: u8) -> Assembled;
}
