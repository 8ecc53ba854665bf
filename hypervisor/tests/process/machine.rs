//! Devices of a guest as a process, for attacks that run in both engines.

use hermit_interface::machine::HOLE;
use hermit_interface::process::{READ, WRITE, queue_eventfd};
use iced_x86::code_asm::{CodeAssembler, al, eax, r12, rax};

use crate::guest::{Assembled, FREE, GuestBuilder, Operand};
use crate::virtio::Machine;

/// Word that is written to a queue event, at an address that drivers do not use.
const ONE: i32 = FREE + 0x3_0000;

/// Guest physical address of a register of a device.
fn register(device: u32, offset: u64) -> Operand {
    (HOLE.start + u64::from(device) * 0x1000 + offset).into()
}

impl Machine for GuestBuilder {
    const MEMORY: u64 = 16 << 20;

    fn code(&mut self) -> &mut CodeAssembler {
        &mut self.code
    }

    fn write_register(&mut self, device: u32, offset: u64, value: u32) -> Assembled {
        self.hypercall([WRITE.into(), register(device, offset), 4.into(), u64::from(value).into()])
    }

    fn write_counter(&mut self, device: u32, offset: u64) -> Assembled {
        self.hypercall([WRITE.into(), register(device, offset), 4.into(), r12.into()])
    }

    fn read_register(&mut self, device: u32, offset: u64) -> Assembled {
        self.hypercall([READ.into(), register(device, offset), 4.into()])
    }

    fn notify(&mut self, device: u32, queue: u32) -> Assembled {
        self.put(ONE, &[1, 0, 0, 0, 0, 0, 0, 0])?;
        let event = u64::from(queue_eventfd(device, queue)).into();
        self.call(libc::SYS_write, [event, Operand::Physical(ONE), 8.into()])
    }

    fn exit_with_al(&mut self) -> Assembled {
        self.code.movzx(eax, al)?;
        self.exit(rax)
    }
}
