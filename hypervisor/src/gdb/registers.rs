//! Registers in the layout of the GDB remote protocol.
//!
//! gdb reads and writes all registers of a thread with one packet. `target.xml` describes the packet's layout
//! to gdb. Most of the layout comes from `gdbstub_arch`. The x87 state has the layout of FSAVE in a packet,
//! and the layout of FXSAVE in [`Registers`], so it is converted. A write may change only registers that an
//! engine can set: segment selectors must stay the same.

use gdbstub::arch::{Arch, Registers as Protocol};
use gdbstub_arch::x86::reg::{X86_64CoreRegs, X86SegmentRegs, X87FpuInternalRegs};

use crate::engine::debug::{FpuState, Registers};

/// Size of [`X86_64CoreRegs`] in a packet, in bytes.
const CORE_SIZE: usize = 0x218;

/// Architecture x86-64 with SSE, as `target.xml` describes it to gdb. The description in `gdbstub_arch` lacks
/// the base addresses of fs and gs, which are needed to debug a kernel.
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

/// Registers in the order of `target.xml`.
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
            eflags: low(from.rflags),
            rip: from.rip,
            segments: X86SegmentRegs { cs, ss, ds, es, fs, gs },
            st: from.fpu.st,
            fpu: to_x87(&from.fpu),
            xmm: from.fpu.xmm,
            mxcsr: from.fpu.mxcsr,
        };
        Self { core, fs_base: from.fs_base, gs_base: from.gs_base }
    }
}

impl PacketRegisters {
    /// Applies gdb's write to the `current` registers, and returns the result. Returns `None` for values that
    /// cannot be set: changed segment selectors, because KVM would need their descriptors, and values of more
    /// than 16 bits for the x87 control registers.
    pub(super) fn apply_to(&self, current: &Registers) -> Option<Registers> {
        let shown = Self::from(current);
        if self.core.segments != shown.core.segments {
            return None;
        }
        // The packet has only the lower half of rflags.
        let rflags = current.rflags & !u64::from(u32::MAX) | u64::from(self.core.eflags);
        let mut fpu =
            FpuState { st: self.core.st, xmm: self.core.xmm, mxcsr: self.core.mxcsr, ..current.fpu.clone() };
        if self.core.fpu != shown.core.fpu {
            set_x87(&mut fpu, &self.core.fpu)?;
        }
        Some(Registers {
            general: self.core.regs,
            rip: self.core.rip,
            rflags,
            selectors: current.selectors,
            fs_base: self.fs_base,
            gs_base: self.gs_base,
            fpu,
        })
    }
}

fn low(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns bits 32 to 47 of an address. The packet has them in place of the selector in the legacy layout of
/// FSAVE.
fn high(address: u64) -> u32 {
    low(address >> 32) & 0xffff
}

/// Converts the x87 state to the layout of FSAVE, with a tag of two bits for each register. Both bits are set
/// if the register is empty.
fn to_x87(from: &FpuState) -> X87FpuInternalRegs {
    let is_empty = |register: u32| from.ftw >> register & 1 == 0;
    X87FpuInternalRegs {
        fctrl: from.fcw.into(),
        fstat: from.fsw.into(),
        ftag: (0..8).filter(|&register| is_empty(register)).map(|register| 0b11 << (2 * register)).sum(),
        fiseg: high(from.fip),
        fioff: low(from.fip),
        foseg: high(from.fdp),
        fooff: low(from.fdp),
        fop: from.fop.into(),
    }
}

/// Sets the x87 state from the layout of FSAVE. Returns `None` if a value does not fit.
fn set_x87(fpu: &mut FpuState, from: &X87FpuInternalRegs) -> Option<()> {
    let address = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let is_used = |register: &u32| from.ftag >> (2 * register) & 0b11 != 0b11;
    fpu.fcw = u16::try_from(from.fctrl).ok()?;
    fpu.fsw = u16::try_from(from.fstat).ok()?;
    fpu.ftw = (0..8).filter(is_used).map(|register| 1 << register).sum();
    fpu.fop = u16::try_from(from.fop).ok()?;
    fpu.fip = address(from.fiseg, from.fioff);
    fpu.fdp = address(from.foseg, from.fooff);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{PacketRegisters, X86_64};
    use crate::engine::debug::{FpuState, Registers};
    use gdbstub::arch::{Arch, Registers as _};
    use proptest::prelude::{Strategy, any};
    use proptest::{collection, proptest};
    use std::array;

    fn registers() -> Registers {
        Registers {
            general: array::from_fn(|n| u64::MAX - n as u64),
            rip: 0x1234_5678_9abc,
            rflags: 0x246,
            selectors: [8, 16, 16, 16, 24, 24],
            fs_base: 0x1000,
            gs_base: u64::MAX - 7,
            fpu: FpuState {
                ftw: 0b1000_0001,
                fip: 0xffff_8000_1234_5678,
                xmm: array::from_fn(|n| n as u128),
                ..FpuState::default()
            },
        }
    }

    fn packet(registers: &PacketRegisters) -> Vec<u8> {
        let mut bytes = Vec::new();
        registers.gdb_serialize(|byte| bytes.extend(byte));
        bytes
    }

    #[test]
    fn packet_size_matches_target_description() {
        let description = X86_64::target_description_xml().unwrap();
        let bits: usize = description
            .split("bitsize=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(packet(&PacketRegisters::default()).len() * 8, bits);
    }

    #[test]
    fn registers_round_trip() {
        let mut read = PacketRegisters::default();
        read.gdb_deserialize(&packet(&PacketRegisters::from(&registers()))).unwrap();
        assert_eq!(read.apply_to(&registers()), Some(registers()));
    }

    #[test]
    fn apply_to_sets_written_registers() {
        let mut written = PacketRegisters::from(&registers());
        written.core.rip = 7;
        written.core.fpu.ftag = 0xfffc;
        written.core.fpu.fctrl = 0x37f;
        written.gs_base = 8;
        let after = written.apply_to(&registers()).unwrap();
        assert_eq!((after.rip, after.gs_base, after.fs_base), (7, 8, 0x1000));
        assert_eq!((after.fpu.ftw, after.fpu.fcw), (1, 0x37f));
    }

    #[test]
    fn apply_to_rejects_selectors_and_oversized_values() {
        let shown = PacketRegisters::from(&registers());
        let mut selector = shown.clone();
        selector.core.segments.cs = 0x33;
        assert_eq!(selector.apply_to(&registers()), None);
        let mut large = shown;
        large.core.fpu.fctrl = 0x10000;
        assert_eq!(large.apply_to(&registers()), None);
    }

    proptest! {
        #[test]
        fn arbitrary_packet_is_parsed_or_rejected(bytes in collection::vec(any::<u8>(), 0..0x240)) {
            let mut read = PacketRegisters::default();
            assert_eq!(read.gdb_deserialize(&bytes).is_ok(), bytes.len() >= 0x228);
            let _: Option<Registers> = read.apply_to(&registers());
        }

        #[test]
        fn tag_word_round_trips(tags in any::<u8>().prop_map(|tags| tags)) {
            let mut before = registers();
            before.fpu.ftw = tags;
            let mut written = PacketRegisters::from(&before);
            written.core.fpu.fop = 1;
            assert_eq!(written.apply_to(&before).unwrap().fpu.ftw, tags);
        }
    }
}
