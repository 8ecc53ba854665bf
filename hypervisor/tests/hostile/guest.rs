//! Guests without a kernel: a few assembled instructions in a valid image.
//!
//! The first instructions build page tables in low memory that identity-map the first 8 GiB of physical
//! addresses. Then they copy all instructions there, so that the guest may overwrite every byte above 1 MiB.

use std::mem::offset_of;

use hermit_interface::boot_info::BootInfo;
use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, al, cr3, dword_ptr, dx, eax, ecx, qword_ptr, r13, r14, r15, rax, rbx, rcx, rdi, rdx, rsi,
    rsp,
};

use crate::image;
use crate::virtio::Driver;

/// Address of the guest's page tables: a PML4 table, a page directory pointer table, and page directories
/// with pages of 2 MiB.
const TABLES: u32 = 0x2000;
/// Size of the identity mapping in GiB.
const MAPPED_GIB: u32 = 8;
/// Address at which the instructions execute.
pub(crate) const CODE: u32 = 0x1_0000;
/// Size reserved for the instructions in bytes.
const CODE_SIZE: u16 = 0xe000;
/// Memory that stays zero.
pub(crate) const ZEROS: u32 = 0x2_0000;
/// Memory for data, up to the stack.
pub(crate) const BUFFERS: u64 = 0x3_0000;
const STACK: u32 = 0xf_0000;

/// Result of assembling instructions.
pub(crate) type Assembled = Result<(), IcedError>;

/// A guest under construction. r12 is the counter of [`Self::repeat`], r13 and r14 are the state of
/// [`Self::random`].
pub(crate) struct GuestBuilder {
    /// Assembler, for instructions without a method of this type.
    pub(crate) code: CodeAssembler,
}

impl GuestBuilder {
    /// Returns the image of a guest that executes the instructions that `assemble` emits, and then exits with
    /// `status`.
    pub(crate) fn image(status: u8, assemble: impl FnOnce(&mut Self) -> Assembled) -> Vec<u8> {
        let mut guest = Self { code: CodeAssembler::new(64).expect("a processor with 64 bits") };
        let assembled = guest.begin().and_then(|()| assemble(&mut guest)).and_then(|()| guest.exit(status));
        assembled.expect("instructions that exist");
        guest.link()
    }

    /// Switches to the identity mapping, and copies the instructions to [`CODE`].
    fn begin(&mut self) -> Assembled {
        let (mut start, mut body) = (self.code.create_label(), self.code.create_label());
        self.code.set_label(&mut start)?;
        self.map()?;
        let code = &mut self.code;
        code.lea(rsi, qword_ptr(start))?;
        code.lea(rdx, qword_ptr(body))?;
        code.sub(rdx, rsi)?;
        code.mov(rdi, u64::from(CODE))?;
        code.add(rdx, rdi)?;
        code.mov(ecx, u32::from(CODE_SIZE))?;
        code.rep().movsb()?;
        code.mov(rsp, u64::from(STACK))?;
        code.jmp(rdx)?;
        code.set_label(&mut body)?;
        code.mov(r13, 1u64)?;
        code.mov(r14, 6_364_136_223_846_793_005u64)
    }

    /// Adds the identity mapping to the existing address space.
    fn map(&mut self) -> Assembled {
        let [top, next, large] = [TABLES, TABLES + 0x1000, TABLES + 0x2000];
        let code = &mut self.code;
        code.mov(r15, qword_ptr(rdi + offset_of!(BootInfo, direct_map)))?;
        code.mov(rsi, qword_ptr(rdi + offset_of!(BootInfo, page_table_root)))?;
        code.add(rsi, r15)?;
        code.lea(rdi, qword_ptr(r15 + top))?;
        code.mov(ecx, 512u32)?;
        code.rep().movsq()?;
        code.mov(rax, u64::from(next | 3))?;
        code.mov(qword_ptr(r15 + top), rax)?;
        self.fill_table(next, large | 3, 0x1000, MAPPED_GIB)?;
        self.fill_table(large, 0x83, 2 << 20, MAPPED_GIB * 512)?;
        self.code.mov(rax, u64::from(top))?;
        self.code.mov(cr3, rax)
    }

    /// Writes `count` entries to a table. The first one is `entry`, and each is the previous one plus `step`.
    fn fill_table(&mut self, table: u32, entry: u32, step: u32, count: u32) -> Assembled {
        let code = &mut self.code;
        let mut next = code.create_label();
        code.lea(rdi, qword_ptr(r15 + table))?;
        code.mov(rax, u64::from(entry))?;
        code.mov(rcx, u64::from(count))?;
        code.mov(rdx, u64::from(step))?;
        code.set_label(&mut next)?;
        code.mov(qword_ptr(rdi), rax)?;
        code.add(rax, rdx)?;
        code.add(rdi, 8)?;
        code.dec(rcx)?;
        code.jne(next)
    }

    /// Exits with `status`.
    pub(crate) fn exit(&mut self, status: u8) -> Assembled {
        self.code.mov(eax, u32::from(status))?;
        self.exit_with_al()
    }

    /// Exits with the status in al.
    pub(crate) fn exit_with_al(&mut self) -> Assembled {
        self.code.mov(dx, u32::from(STATUS_PORT))?;
        self.code.out(dx, al)?;
        self.code.mov(dx, u32::from(QUIT_PORT))?;
        self.code.out(dx, al)
    }

    /// Writes a 32-bit value.
    pub(crate) fn write32(&mut self, address: u64, value: u32) -> Assembled {
        self.code.mov(rbx, address)?;
        self.code.mov(eax, value)?;
        self.code.mov(dword_ptr(rbx), eax)
    }

    /// Repeats `body`.
    pub(crate) fn repeat(&mut self, times: u32, body: impl FnOnce(&mut Self) -> Assembled) -> Assembled {
        Driver(self).repeat(times, |driver| body(driver.0))
    }

    /// Spins forever.
    pub(crate) fn spin(&mut self) -> Assembled {
        let mut here = self.code.create_label();
        self.code.set_label(&mut here)?;
        self.code.jmp(here)
    }

    /// Puts a pseudorandom number into rax, from Knuth's MMIX linear congruential generator without its weak
    /// low bits.
    pub(crate) fn random(&mut self) -> Assembled {
        self.code.imul_2(r13, r14)?;
        self.code.mov(rax, 1_442_695_040_888_963_407u64)?;
        self.code.add(r13, rax)?;
        self.code.mov(rax, r13)?;
        self.code.shr(rax, 20u32)
    }

    /// Builds the image file.
    fn link(&mut self) -> Vec<u8> {
        let code = self.code.assemble(0).expect("defined labels");
        image::with_code(&code, CODE_SIZE)
    }
}
