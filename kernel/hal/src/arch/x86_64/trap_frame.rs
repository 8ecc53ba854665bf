//! The registers of interrupted code, which the entry stubs and the processor push.

/// The registers of interrupted code, in the order in which they are on the stack, from the lowest address
/// upwards, while [`trap::handle`](super::trap::handle) runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TrapFrame {
    pub(crate) r15: u64,
    pub(crate) r14: u64,
    pub(crate) r13: u64,
    pub(crate) r12: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rbp: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) rbx: u64,
    pub(crate) rax: u64,
    pub(crate) vector: u64,
    pub(crate) error: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

impl TrapFrame {
    /// Address of the instruction at which the code was interrupted.
    #[must_use]
    pub const fn instruction_pointer(&self) -> u64 {
        self.rip
    }

    /// The stack pointer.
    #[must_use]
    pub const fn stack_pointer(&self) -> u64 {
        self.rsp
    }

    /// The frame pointer, from which a backtrace starts.
    #[must_use]
    pub const fn frame_pointer(&self) -> u64 {
        self.rbp
    }

    /// Number of the exception or interrupt.
    #[must_use]
    pub const fn vector(&self) -> u64 {
        self.vector
    }

    /// Error code of the exception; 0 if it has none.
    #[must_use]
    pub const fn error_code(&self) -> u64 {
        self.error
    }

    /// Names and values of the general-purpose registers, as a table of four columns.
    #[must_use]
    pub const fn registers(&self) -> [[(&'static str, u64); 4]; 4] {
        [
            [("rax", self.rax), ("rbx", self.rbx), ("rcx", self.rcx), ("rdx", self.rdx)],
            [("rsi", self.rsi), ("rdi", self.rdi), ("rbp", self.rbp), ("rsp", self.rsp)],
            [("r8 ", self.r8), ("r9 ", self.r9), ("r10", self.r10), ("r11", self.r11)],
            [("r12", self.r12), ("r13", self.r13), ("r14", self.r14), ("r15", self.r15)],
        ]
    }

    /// Makes the interrupted code continue at another address. Returns the address at which it would have
    /// continued.
    pub(crate) const fn redirect(&mut self, address: u64) -> u64 {
        core::mem::replace(&mut self.rip, address)
    }
}
