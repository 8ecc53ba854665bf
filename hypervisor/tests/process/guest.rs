//! Guests without a kernel: a few instructions in a valid image.

use std::mem::offset_of;

use hermit_interface::boot_info::{BootInfo, Region};
use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use hermit_interface::process::{CALL, OUT};
use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmRegister64, CodeAssembler, byte_ptr, esi, qword_ptr, r8, r9, r10, r10d, r14, r15, rax, rcx, rdi, rdx,
    rsi, rsp,
};

use crate::image;

/// Maximum size of the code in bytes.
const CODE_SIZE: u16 = 0xe000;
/// Physical address of the top of the stack, below which memory is unused.
const STACK: i32 = 0x8_0000;
/// Physical address of unused memory above the stack.
pub(crate) const FREE: i32 = 0x9_0000;

/// Offsets in the boot information of the start and the size of the address range for the kernel's own
/// mappings.
const OWN_START: usize = offset_of!(BootInfo, free_addresses) + offset_of!(Region, start);
const OWN_SIZE: usize = offset_of!(BootInfo, free_addresses) + offset_of!(Region, size);

/// Result of assembling instructions.
pub(crate) type Assembled = Result<(), IcedError>;

/// Value for a register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// Immediate value.
    Number(u64),
    /// Value of a register. It must not be an argument register of system calls.
    Register(AsmRegister64),
    /// Virtual address of a physical address, in the direct map.
    Physical(i32),
    /// Virtual address at this offset in the address range for the kernel's own mappings.
    Own(i32),
    /// End of the address range for the kernel's own mappings.
    OwnEnd,
}

impl From<u64> for Operand {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(i64::from(number).cast_unsigned())
    }
}

impl From<AsmRegister64> for Operand {
    fn from(register: AsmRegister64) -> Self {
        Self::Register(register)
    }
}

/// Builder of a guest. r15 holds the start of the direct map, r14 the address of the boot information.
pub(crate) struct GuestBuilder {
    /// Assembler, for instructions without a method of this type.
    pub(crate) code: CodeAssembler,
}

impl GuestBuilder {
    /// Builds the image of a guest that executes the code of `write`, and then exits with `status`.
    pub(crate) fn image(status: u8, write: impl FnOnce(&mut Self) -> Assembled) -> Vec<u8> {
        let mut guest = Self { code: CodeAssembler::new(64).expect("64-bit mode") };
        let assembled =
            guest.begin().and_then(|()| write(&mut guest)).and_then(|()| guest.exit(i32::from(status)));
        assembled.expect("valid instructions");
        guest.link()
    }

    fn begin(&mut self) -> Assembled {
        self.code.mov(r14, rdi)?;
        self.code.mov(r15, qword_ptr(r14 + offset_of!(BootInfo, direct_map)))?;
        self.code.lea(rsp, qword_ptr(r15 + STACK))
    }

    /// Loads a value into a register.
    pub(crate) fn set(&mut self, register: AsmRegister64, value: Operand) -> Assembled {
        match value {
            Operand::Number(number) => self.code.mov(register, number),
            Operand::Register(from) => self.code.mov(register, from),
            Operand::Physical(address) => self.code.lea(register, qword_ptr(r15 + address)),
            Operand::Own(offset) => {
                self.code.mov(register, qword_ptr(r14 + OWN_START))?;
                self.code.add(register, offset)
            }
            Operand::OwnEnd => {
                self.code.mov(register, qword_ptr(r14 + OWN_START))?;
                self.code.add(register, qword_ptr(r14 + OWN_SIZE))
            }
        }
    }

    /// Makes a system call; the result is in rax.
    pub(crate) fn call<const N: usize>(&mut self, number: i64, arguments: [Operand; N]) -> Assembled {
        for (register, argument) in [rdi, rsi, rdx, r10, r8, r9].into_iter().zip(arguments) {
            self.set(register, argument)?;
        }
        self.code.mov(rax, number)?;
        self.code.syscall()
    }

    /// Makes a hypercall; the result is in rax.
    pub(crate) fn hypercall<const N: usize>(&mut self, arguments: [Operand; N]) -> Assembled {
        self.call(CALL.cast_signed(), arguments)
    }

    /// Writes `size` bytes of a value to a port.
    pub(crate) fn out(&mut self, port: u16, value: Operand, size: u64) -> Assembled {
        self.hypercall([OUT.into(), (u64::from(port) | size << 16).into(), value])
    }

    /// Exits with a status.
    pub(crate) fn exit(&mut self, status: impl Into<Operand>) -> Assembled {
        self.out(STATUS_PORT, status.into(), 1)?;
        self.out(QUIT_PORT, 0.into(), 1)
    }

    /// Exits with `status` unless rax equals `value`.
    pub(crate) fn expect(&mut self, value: i32, status: u8) -> Assembled {
        let mut good = self.code.create_label();
        self.code.cmp(rax, value)?;
        self.code.je(good)?;
        self.exit(i32::from(status))?;
        self.code.set_label(&mut good)?;
        self.code.nop()
    }

    /// Stores bytes to physical memory.
    pub(crate) fn put(&mut self, physical: i32, bytes: &[u8]) -> Assembled {
        for (address, byte) in (physical..).zip(bytes) {
            self.code.mov(byte_ptr(r15 + address), i32::from(*byte))?;
        }
        Ok(())
    }

    /// Spins forever.
    pub(crate) fn spin(&mut self) -> Assembled {
        let mut here = self.code.create_label();
        self.code.set_label(&mut here)?;
        self.code.pause()?;
        self.code.jmp(here)
    }

    /// Waits on the futex at rdi as long as its value equals eax, forever.
    pub(crate) fn sleep_while_unchanged(&mut self) -> Assembled {
        let mut again = self.code.create_label();
        self.code.mov(rdx, rax)?;
        self.code.set_label(&mut again)?;
        self.code.xor(esi, esi)?;
        self.code.xor(r10d, r10d)?;
        self.code.mov(rax, libc::SYS_futex)?;
        self.code.syscall()?;
        self.code.jmp(again)
    }

    /// Spins until the 32-bit word at a physical address is not 0.
    pub(crate) fn wait_for(&mut self, physical: i32) -> Assembled {
        let mut again = self.code.create_label();
        self.code.lea(rcx, qword_ptr(r15 + physical))?;
        self.code.set_label(&mut again)?;
        self.code.pause()?;
        self.code.cmp(iced_x86::code_asm::dword_ptr(rcx), 0)?;
        self.code.je(again)
    }

    /// Builds the image file.
    fn link(&mut self) -> Vec<u8> {
        let code = self.code.assemble(0).expect("all labels are set");
        image::with_code(&code, CODE_SIZE)
    }
}
