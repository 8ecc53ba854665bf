//! Registers as gdb's protocol has them.

use gdbstub::arch::{Arch, Registers as Protocol};
use gdbstub_arch::x86::reg::{X86_64CoreRegs, X86SegmentRegs, X87FpuInternalRegs};

use crate::engine::debug::{FloatingPoint, Registers};

/// Bytes of [`X86_64CoreRegs`] in a packet.
const CORE_SIZE: usize = 0x218;

/// An x86-64 processor with SSE, as `target.xml` describes it to gdb. What the crate `gdbstub_arch` has lacks the bases
/// of segments, which a kernel's debugger needs.
#[derive(Debug)]
pub(super) enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = PacketRegisters;
    type RegId = ();
    type BreakpointKind = usize;

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("target.xml"))
    }
}

/// All registers in the order of `target.xml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PacketRegisters {
    core: X86_64CoreRegs,
    fs_base: u64,
    gs_base: u64,
}

impl Protocol for PacketRegisters {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.core.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.core.gdb_serialize(&mut write_byte);
        let bases = self.fs_base.to_le_bytes().into_iter().chain(self.gs_base.to_le_bytes());
        bases.for_each(|byte| write_byte(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let (core, bases) = bytes.split_at_checked(CORE_SIZE).ok_or(())?;
        let (fs_base, rest) = bases.split_first_chunk().ok_or(())?;
        let gs_base = rest.first_chunk().ok_or(())?;
        self.core.gdb_deserialize(core)?;
        (self.fs_base, self.gs_base) = (u64::from_le_bytes(*fs_base), u64::from_le_bytes(*gs_base));
        Ok(())
    }
}

impl From<&Registers> for PacketRegisters {
    fn from(from: &Registers) -> Self {
        let [cs, ss, ds, es, fs, gs] = from.selectors.map(u32::from);
        let core = X86_64CoreRegs {
            regs: from.general,
            eflags: low(from.flags),
            rip: from.instruction,
            segments: X86SegmentRegs { cs, ss, ds, es, fs, gs },
            st: from.floating_point.stack,
            fpu: state(&from.floating_point),
            xmm: from.floating_point.vectors,
            mxcsr: from.floating_point.vector_control,
        };
        Self { core, fs_base: from.fs_base, gs_base: from.gs_base }
    }
}

impl PacketRegisters {
    /// What a processor has in its registers once gdb has written these. None if that cannot be: selectors stay, because
    /// there is no descriptor to go with another one, and some registers are smaller than gdb has them.
    pub(super) fn over(&self, current: &Registers) -> Option<Registers> {
        let shown = Self::from(current);
        if self.core.segments != shown.core.segments {
            return None;
        }
        // gdb knows the lower half of the flags.
        let flags = current.flags & !u64::from(u32::MAX) | u64::from(self.core.eflags);
        let mut floating_point = FloatingPoint {
            stack: self.core.st,
            vectors: self.core.xmm,
            vector_control: self.core.mxcsr,
            ..current.floating_point.clone()
        };
        if self.core.fpu != shown.core.fpu {
            set_state(&mut floating_point, &self.core.fpu)?;
        }
        Some(Registers {
            general: self.core.regs,
            instruction: self.core.rip,
            flags,
            selectors: current.selectors,
            fs_base: self.fs_base,
            gs_base: self.gs_base,
            floating_point,
        })
    }
}

fn low(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Bits 32 to 47 of an address, where the unit for floating point once had a selector.
fn high(address: u64) -> u32 {
    low(address >> 32) & 0xffff
}

/// The unit for floating point as FSAVE has it, with two bits of tag for each register: all are set if it is empty.
fn state(from: &FloatingPoint) -> X87FpuInternalRegs {
    let is_empty = |register: u32| from.tags >> register & 1 == 0;
    X87FpuInternalRegs {
        fctrl: from.control.into(),
        fstat: from.status.into(),
        ftag: (0..8).filter(|&register| is_empty(register)).map(|register| 0b11 << (2 * register)).sum(),
        fiseg: high(from.instruction),
        fioff: low(from.instruction),
        foseg: high(from.operand),
        fooff: low(from.operand),
        fop: from.opcode.into(),
    }
}

fn set_state(floating_point: &mut FloatingPoint, from: &X87FpuInternalRegs) -> Option<()> {
    let address = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let is_used = |register: &u32| from.ftag >> (2 * register) & 0b11 != 0b11;
    floating_point.control = u16::try_from(from.fctrl).ok()?;
    floating_point.status = u16::try_from(from.fstat).ok()?;
    floating_point.tags = (0..8).filter(is_used).map(|register| 1 << register).sum();
    floating_point.opcode = u16::try_from(from.fop).ok()?;
    floating_point.instruction = address(from.fiseg, from.fioff);
    floating_point.operand = address(from.foseg, from.fooff);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{PacketRegisters, X86_64};
    use crate::engine::debug::{FloatingPoint, Registers};
    use gdbstub::arch::{Arch, Registers as _};
    use proptest::prelude::{Strategy, any};
    use proptest::{collection, proptest};
    use std::array;

    fn registers() -> Registers {
        Registers {
            general: array::from_fn(|n| u64::MAX - n as u64),
            instruction: 0x1234_5678_9abc,
            flags: 0x246,
            selectors: [8, 16, 16, 16, 24, 24],
            fs_base: 0x1000,
            gs_base: u64::MAX - 7,
            floating_point: FloatingPoint {
                tags: 0b1000_0001,
                instruction: 0xffff_8000_1234_5678,
                vectors: array::from_fn(|n| n as u128),
                ..FloatingPoint::default()
            },
        }
    }

    fn packet(registers: &PacketRegisters) -> Vec<u8> {
        let mut bytes = Vec::new();
        registers.gdb_serialize(|byte| bytes.extend(byte));
        bytes
    }

    #[test]
    fn packets_are_as_long_as_the_description_says() {
        let description = X86_64::target_description_xml().unwrap();
        let bits: usize = description
            .split("bitsize=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(packet(&PacketRegisters::default()).len() * 8, bits);
    }

    #[test]
    fn registers_survive_the_way_there_and_back() {
        let mut read = PacketRegisters::default();
        read.gdb_deserialize(&packet(&PacketRegisters::from(&registers()))).unwrap();
        assert_eq!(read.over(&registers()), Some(registers()));
    }

    #[test]
    fn what_gdb_writes_arrives() {
        let mut written = PacketRegisters::from(&registers());
        written.core.rip = 7;
        written.core.fpu.ftag = 0xfffc;
        written.core.fpu.fctrl = 0x37f;
        written.gs_base = 8;
        let after = written.over(&registers()).unwrap();
        assert_eq!((after.instruction, after.gs_base, after.fs_base), (7, 8, 0x1000));
        assert_eq!((after.floating_point.tags, after.floating_point.control), (1, 0x37f));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let shown = PacketRegisters::from(&registers());
        let mut selector = shown.clone();
        selector.core.segments.cs = 0x33;
        assert_eq!(selector.over(&registers()), None);
        let mut large = shown;
        large.core.fpu.fctrl = 0x10000;
        assert_eq!(large.over(&registers()), None);
    }

    proptest! {
        #[test]
        fn any_packet_is_read_or_refused(bytes in collection::vec(any::<u8>(), 0..0x240)) {
            let mut read = PacketRegisters::default();
            assert_eq!(read.gdb_deserialize(&bytes).is_ok(), bytes.len() >= 0x228);
            let _: Option<Registers> = read.over(&registers());
        }

        #[test]
        fn used_registers_are_the_same_both_ways(tags in any::<u8>().prop_map(|tags| tags)) {
            let mut before = registers();
            before.floating_point.tags = tags;
            let mut written = PacketRegisters::from(&before);
            written.core.fpu.fop = 1;
            assert_eq!(written.over(&before).unwrap().floating_point.tags, tags);
        }
    }
}
