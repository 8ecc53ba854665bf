//! vCPU state as a debugger reads and writes it, independent of the engine.

/// Number of hardware breakpoints of a CPU: DR0 to DR3.
pub const HARDWARE_BREAKPOINTS: usize = 4;

/// Opcode of the instruction `int3`.
pub const INT3: u8 = 0xcc;

/// Registers of an x86-64 CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// General-purpose registers: rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// Instruction pointer.
    pub rip: u64,
    /// Flags.
    pub rflags: u64,
    /// Segment selectors: cs, ss, ds, es, fs, gs.
    pub selectors: [u16; 6],
    /// Base address of fs: thread-local storage.
    pub fs_base: u64,
    /// Base address of gs: per-CPU data.
    pub gs_base: u64,
    /// x87 and SSE registers.
    pub fpu: FpuState,
}

/// x87 and SSE registers in the layout of FXSAVE (SDM volume 1, section 10.5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FpuState {
    /// st(0) to st(7).
    pub st: [[u8; 10]; 8],
    /// Control word.
    pub fcw: u16,
    /// Status word.
    pub fsw: u16,
    /// Abridged tag word: a bit for each register that is not empty.
    pub ftw: u8,
    /// Opcode of the last instruction.
    pub fop: u16,
    /// Address of the last instruction.
    pub fip: u64,
    /// Address of the last instruction's operand.
    pub fdp: u64,
    /// xmm0 to xmm15.
    pub xmm: [u128; 16],
    /// SSE control and status register.
    pub mxcsr: u32,
}

/// Events at which a vCPU stops. By default the vCPU stops at no event, and the guest owns the debug
/// registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugControl {
    /// Stop at breakpoint instructions (`int3`).
    pub breakpoints: bool,
    /// Stop after one instruction. Interrupts are not delivered during this step.
    pub step: bool,
    /// Contents of DR0 to DR3.
    pub hardware: [Option<HardwareBreakpoint>; HARDWARE_BREAKPOINTS],
}

/// DR6.BS: the debug exception was caused by a single step (SDM volume 3, section 19.2.3).
pub(super) const DR6_SINGLE_STEP: u64 = 1 << 14;

/// DR7.GE, and the bit of DR7 that is always set (SDM volume 3, section 19.2.4).
const DR7_FIXED: u64 = 1 << 10 | 1 << 9;

impl DebugControl {
    /// Values of DR0 to DR3.
    pub(super) fn addresses(&self) -> [u64; HARDWARE_BREAKPOINTS] {
        self.hardware.map(|breakpoint| breakpoint.map_or(0, |breakpoint| breakpoint.address))
    }

    /// Value of DR7.
    pub(super) fn dr7(&self) -> u64 {
        let enabled = (0..).zip(self.hardware).filter_map(|(number, breakpoint)| Some((number, breakpoint?)));
        enabled.fold(DR7_FIXED, |bits, (number, breakpoint)| bits | dr7_bits(number, &breakpoint))
    }
}

/// Bits of DR7 that enable breakpoint `number`.
fn dr7_bits(number: u32, breakpoint: &HardwareBreakpoint) -> u64 {
    let length = match breakpoint.length {
        WatchLength::Byte => 0b00,
        WatchLength::Word => 0b01,
        WatchLength::Double => 0b11,
        WatchLength::Quad => 0b10,
    };
    let access = match breakpoint.access {
        BreakpointAccess::Execute => 0b00,
        BreakpointAccess::Write => 0b01,
        BreakpointAccess::ReadWrite => 0b11,
    };
    // The global enable bit, which a task switch does not clear, unlike the local one.
    0b10 << (2 * number) | (length << 2 | access) << (16 + 4 * number)
}

/// Bits B0 to B3 of DR6: a bit for each of [`DebugControl::hardware`] that was hit.
pub(super) fn dr6_hits(dr6: u64) -> u8 {
    u8::try_from(dr6 & 0b1111).unwrap_or(0)
}

/// Hardware breakpoint or watchpoint in a debug register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareBreakpoint {
    /// Virtual address, a multiple of the length.
    pub address: u64,
    /// Number of bytes.
    pub length: WatchLength,
    /// Access that triggers the breakpoint.
    pub access: BreakpointAccess,
}

/// Number of bytes that a debug register watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchLength {
    /// 1 byte; the only length for [`BreakpointAccess::Execute`].
    Byte,
    /// 2 bytes.
    Word,
    /// 4 bytes.
    Double,
    /// 8 bytes.
    Quad,
}

impl WatchLength {
    /// All lengths, the longest first.
    pub const ALL: [Self; 4] = [Self::Quad, Self::Double, Self::Word, Self::Byte];

    /// Length in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Word => 2,
            Self::Double => 4,
            Self::Quad => 8,
        }
    }
}

/// Access that triggers a hardware breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakpointAccess {
    /// Execution: the CPU stops before the instruction.
    Execute,
    /// Write: the CPU stops after the instruction.
    Write,
    /// Read or write: the CPU stops after the instruction.
    ReadWrite,
}

/// Debug event at which a vCPU has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugEvent {
    /// Breakpoint instruction at this address, which rip still points to.
    Breakpoint(u64),
    /// Debug exception (#DB).
    Trap {
        /// A single step is complete.
        step: bool,
        /// A bit for each of [`DebugControl::hardware`] that was hit.
        hits: u8,
    },
}
