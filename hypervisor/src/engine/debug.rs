//! What a debugger sees of a processor and wants from it, whatever engine runs it.

/// How many breakpoints and watchpoints a processor has in its debug registers.
pub const HARDWARE_BREAKPOINTS: usize = 4;

/// The instruction `int3`.
pub const BREAKPOINT: u8 = 0xcc;

/// Registers of an x86-64 processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: [u64; 16],
    /// rip.
    pub instruction: u64,
    /// rflags.
    pub flags: u64,
    /// Selectors of cs, ss, ds, es, fs, gs.
    pub selectors: [u16; 6],
    /// Where fs begins: thread-local storage.
    pub fs_base: u64,
    /// Where gs begins: data of the processor.
    pub gs_base: u64,
    /// Registers for floating point and vectors.
    pub floating_point: FloatingPoint,
}

/// Registers for floating point and vectors, as FXSAVE has them (SDM volume 1, section 10.5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FloatingPoint {
    /// st(0) to st(7).
    pub stack: [[u8; 10]; 8],
    /// Control word.
    pub control: u16,
    /// Status word.
    pub status: u16,
    /// A bit for each register that holds a value.
    pub tags: u8,
    /// Last opcode.
    pub opcode: u16,
    /// Address of the last instruction.
    pub instruction: u64,
    /// Address of the last instruction's operand.
    pub operand: u64,
    /// xmm0 to xmm15.
    pub vectors: [u128; 16],
    /// mxcsr.
    pub vector_control: u32,
}

/// What stops a processor. By default nothing does, and the guest has its debug registers for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugControl {
    /// Breakpoint instructions.
    pub breakpoints: bool,
    /// Any one instruction; interrupts wait.
    pub step: bool,
    /// Addresses.
    pub hardware: [Option<HardwareBreakpoint>; HARDWARE_BREAKPOINTS],
}

/// Debug register 6: a step was done (SDM volume 3, section 19.2.3).
pub(super) const STEPPED: u64 = 1 << 14;

/// Debug register 7: exact breakpoints, and the bit that is always set (SDM volume 3, section 19.2.4).
const EXACT: u64 = 1 << 10 | 1 << 9;

impl DebugControl {
    /// Debug registers 0 to 3.
    pub(super) fn addresses(&self) -> [u64; HARDWARE_BREAKPOINTS] {
        self.hardware.map(|breakpoint| breakpoint.map_or(0, |breakpoint| breakpoint.address))
    }

    /// Debug register 7.
    pub(super) fn enabled(&self) -> u64 {
        let enabled = (0..).zip(self.hardware).filter_map(|(number, breakpoint)| Some((number, breakpoint?)));
        enabled.fold(EXACT, |bits, (number, breakpoint)| bits | enable(number, &breakpoint))
    }
}

/// The bits of debug register 7 for one of the addresses.
fn enable(number: u32, breakpoint: &HardwareBreakpoint) -> u64 {
    let length = match breakpoint.length {
        WatchLength::Byte => 0b00,
        WatchLength::Word => 0b01,
        WatchLength::Double => 0b11,
        WatchLength::Quad => 0b10,
    };
    let access = match breakpoint.access {
        Access::Execute => 0b00,
        Access::Write => 0b01,
        Access::ReadWrite => 0b11,
    };
    // Globally enabled: no task switch turns it off.
    0b10 << (2 * number) | (length << 2 | access) << (16 + 4 * number)
}

/// What debug register 6 says of [`DebugControl::hardware`]: a bit for each that has come true.
pub(super) fn hits(sixth: u64) -> u8 {
    u8::try_from(sixth & 0b1111).unwrap_or(0)
}

/// A breakpoint or watchpoint in a debug register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareBreakpoint {
    /// A multiple of the length.
    pub address: u64,
    /// How many bytes.
    pub length: WatchLength,
    /// What must happen there.
    pub access: Access,
}

/// How many bytes a debug register watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchLength {
    /// One; the only one for [`Access::Execute`].
    Byte,
    /// Two.
    Word,
    /// Four.
    Double,
    /// Eight.
    Quad,
}

impl WatchLength {
    /// From the longest to the shortest.
    pub const ALL: [Self; 4] = [Self::Quad, Self::Double, Self::Word, Self::Byte];

    /// As a number.
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

/// What a processor does with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is about to run the instruction there.
    Execute,
    /// It has written.
    Write,
    /// It has read or written.
    ReadWrite,
}

/// At what a processor has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugEvent {
    /// A breakpoint instruction at this address, which is the next to run.
    Breakpoint(u64),
    /// A debug exception.
    Trap {
        /// It has run one instruction.
        step: bool,
        /// A bit for each of [`DebugControl::hardware`] that has come true.
        hits: u8,
    },
}
