//! Devices of a guest on KVM, for attacks that run in both engines.

use iced_x86::code_asm::{CodeAssembler, dword_ptr, eax, r12d, rbx};

use hermit_interface::machine::HOLE;

use crate::guest::{Assembled, GuestBuilder};
use crate::host;
use crate::virtio::Machine;

/// Offset of `QueueNotify` (virtio 1.2 §4.2.2).
const NOTIFY: u64 = 0x50;

/// Guest physical address of a register of a device.
fn register(device: u32, offset: u64) -> u64 {
    HOLE.start + u64::from(device) * 0x1000 + offset
}

impl Machine for GuestBuilder {
    const MEMORY: u64 = host::MEMORY << 20;

    fn code(&mut self) -> &mut CodeAssembler {
        &mut self.code
    }

    fn write_register(&mut self, device: u32, offset: u64, value: u32) -> Assembled {
        self.write32(register(device, offset), value)
    }

    fn write_counter(&mut self, device: u32, offset: u64) -> Assembled {
        self.code.mov(rbx, register(device, offset))?;
        self.code.mov(dword_ptr(rbx), r12d)
    }

    fn read_register(&mut self, device: u32, offset: u64) -> Assembled {
        self.code.mov(rbx, register(device, offset))?;
        self.code.mov(eax, dword_ptr(rbx))
    }

    fn notify(&mut self, device: u32, queue: u32) -> Assembled {
        Machine::write_register(self, device, NOTIFY, queue)
    }

    fn exit_with_al(&mut self) -> Assembled {
        Self::exit_with_al(self)
    }
}
