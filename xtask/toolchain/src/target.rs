//! The targets for which code is built.

/// The target of bare-metal code: the kernel and the loader.
pub const BARE_TARGET: &str = "x86_64-unknown-none";

/// The target of uhyve, if the toolchain has it: Linux with the C library musl, which starts quickly. The
/// start of glibc executes about a hundred CPUID instructions. Inside of a virtual machine, each CPUID exits
/// to the hypervisor.
pub const UHYVE_TARGET: &str = "x86_64-unknown-linux-musl";

/// The target of programs.
pub const GUEST_TARGET: &str = "x86_64-unknown-hermit";

/// The target of programs without floating-point instructions, which [`crate::setup::soft_float`] specifies.
pub const SOFT_FLOAT_TARGET: &str = "x86_64-unknown-hermit-softfloat";

/// The floating-point ABI of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FloatAbi {
    /// Floating-point numbers are computed in vector registers.
    #[default]
    Hard,
    /// Floating-point numbers are computed by integer code: program, std and all libraries contain no SSE,
    /// x87 or MMX instruction.
    Soft,
}

impl FloatAbi {
    /// Returns the target of programs with this ABI.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Self::Hard => GUEST_TARGET,
            Self::Soft => SOFT_FLOAT_TARGET,
        }
    }
}
