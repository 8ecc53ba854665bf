//! All vector, mask and x87 registers with the control words, held by assembly without a call.
//!
//! A test of context switches must know that a register kept its value while the thread did not run. Compiled
//! code cannot do that, since the compiler may use any register at any time. So one assembly block loads all
//! registers of a set with known values, waits in a loop that touches none of them until the other threads
//! have arrived, and stores all registers again. The thread compares the stored values with the loaded ones.
//! The block also reads the CPU's number at both ends, to know if the thread has migrated.

use std::arch::asm;
use std::fmt;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::AtomicUsize;

use crate::control::ControlWords;

/// Number of x87 registers.
const X87_REGISTERS: usize = 8;

/// Contents of the registers that a thread holds.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// ZMM0 to ZMM31; of a narrower set the low parts.
    vectors: [[u64; 8]; 32],
    /// K0 to K7.
    masks: [u64; 8],
    /// The x87 registers from the top of their stack: significand, then sign and exponent.
    x87: [[u64; 2]; X87_REGISTERS],
    /// R8 to R15.
    general: [u64; 8],
    /// The thread's control words.
    control: ControlWords,
}

/// Sets of vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterSet {
    /// XMM0 to XMM15.
    Sse,
    /// YMM0 to YMM15.
    Avx,
    /// ZMM0 to ZMM31 and K0 to K7.
    Avx512,
}

impl fmt::Display for RegisterSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sse => "SSE",
            Self::Avx => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

impl RegisterSet {
    /// The sets of this processor that the system has enabled.
    pub(crate) fn available() -> Vec<Self> {
        let has_avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let all =
            [(Self::Sse, true), (Self::Avx, is_x86_feature_detected!("avx2")), (Self::Avx512, has_avx512)];
        all.into_iter().filter(|(_, available)| *available).map(|(set, _)| set).collect()
    }

    /// Number of vector registers, 64-bit words of each, and number of mask registers.
    const fn shape(self) -> (usize, usize, usize) {
        match self {
            Self::Sse => (16, 2, 0),
            Self::Avx => (16, 4, 0),
            Self::Avx512 => (32, 8, 8),
        }
    }
}

/// Findings of a thread after it has held its registers.
#[derive(Debug)]
pub(crate) struct Held {
    /// The registers after the wait.
    pub(crate) registers: Registers,
    /// The thread was on another CPU than before.
    pub(crate) is_migrated: bool,
}

impl Registers {
    /// Registers in which every bit of `set` is pseudo-random, and the registers that the set lacks are zero.
    pub(crate) fn random(set: RegisterSet, control: ControlWords, seed: u64) -> Self {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        // Marsaglia's xorshift.
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (vectors, words, masks) = set.shape();
        let mut registers = Self::zero();
        registers.control = control;
        for vector in &mut registers.vectors[..vectors] {
            vector[..words].fill_with(&mut next);
        }
        registers.masks[..masks].fill_with(&mut next);
        registers.general.fill_with(&mut next);
        for register in &mut registers.x87 {
            *register = [next(), next() & 0xffff];
        }
        registers
    }

    const fn zero() -> Self {
        Self {
            vectors: [[0; 8]; 32],
            masks: [0; 8],
            x87: [[0; 2]; X87_REGISTERS],
            general: [0; 8],
            control: ControlWords::DEFAULT,
        }
    }

    /// Loads all registers of the set, adds one to `arrived`, waits without a call until that is at least
    /// `target`, and stores the registers.
    pub(crate) fn hold(&self, set: RegisterSet, arrived: &AtomicUsize, target: usize) -> Held {
        let mut stored = Block { registers: Self::zero(), defaults: ControlWords::DEFAULT, cpus: [0; 2] };
        let (from, to) = (ptr::from_ref(self), &raw mut stored);
        let counter = arrived.as_ptr();
        match set {
            RegisterSet::Sse => hold_sse(from, to, counter, target),
            RegisterSet::Avx => hold_avx(from, to, counter, target),
            RegisterSet::Avx512 => hold_avx512(from, to, counter, target),
        }
        let Block { registers, cpus: [before, after], .. } = stored;
        Held { registers, is_migrated: before != after }
    }

    /// Loads and stores registers at once; panics if the x87 stack had no room, or a register has changed.
    pub(crate) fn check_without_waiting(set: RegisterSet, number: usize) {
        let registers = Self::random(set, ControlWords::numbered(number), number as u64);
        registers.hold(set, &AtomicUsize::new(0), 1).registers.expect(&registers, set);
    }

    /// Panics, naming the registers, unless these are the expected ones.
    pub(crate) fn expect(&self, expected: &Self, set: RegisterSet) {
        let check = |kind: &str, held: &[u64], expected: &[u64], words: usize| {
            for (number, (held, expected)) in held.chunks(words).zip(expected.chunks(words)).enumerate() {
                assert_eq!(held, expected, "{set}: {kind} register {number} has changed");
            }
        };
        check("vector", self.vectors.as_flattened(), expected.vectors.as_flattened(), 8);
        check("mask", &self.masks, &expected.masks, 1);
        check("x87", self.x87.as_flattened(), expected.x87.as_flattened(), 2);
        check("general-purpose", &self.general, &expected.general, 1);
        assert_eq!(self.control, expected.control, "{set}: a control word has changed");
    }
}

/// Output of the assembly.
#[repr(C, align(64))]
struct Block {
    registers: Registers,
    /// The control words of the surrounding code.
    defaults: ControlWords,
    /// Identities of the CPU before and after the wait.
    cpus: [u64; 2],
}

/// Loads this CPU's identity into RAX: the first word of the kernel's per-CPU data, which is their address.
#[cfg(target_os = "hermit")]
macro_rules! load_cpu {
    () => {
        "mov rax, gs:[0]"
    };
}

/// Linux gives no identity without a call.
#[cfg(not(target_os = "hermit"))]
macro_rules! load_cpu {
    () => {
        "xor eax, eax"
    };
}

/// Repeats the lines up to `.endr` with `\\i` from 0 on.
macro_rules! each {
    (8) => {
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7"
    };
    (16) => {
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"
    };
    (32) => {
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, \
         28, 29, 30, 31"
    };
}

/// Defines a function that holds a set of registers. RDI points to the values to be loaded, RSI to the memory
/// to store the registers to, and RCX to the counter; RDX is the counter's target.
macro_rules! define_hold {
    ($name:ident, [$($load:tt)*], [$($store:tt)*]) => {
        fn $name(from: *const Registers, to: *mut Block, arrived: *mut usize, target: usize) {
            // SAFETY: the caller, `Registers::hold`, passes pointers to live values aligned to 64 bytes, of
            // which `to` and `arrived` may be written; the counter is only accessed atomically. CPUID has the
            // set, so its instructions execute. Registers are declared: `clobber_abi` has the caller-saved
            // ones with the vector, mask and x87 registers; RBX and RBP are not used. At the end the x87
            // stack is empty and the control words are as before. Without `nostack`, no data of the function
            // lies below the stack pointer.
            #[expect(unsafe_code, reason = "only assembly knows what is in a register")]
            unsafe {
                asm!(
                    "stmxcsr [rsi + {defaults}]",
                    "fnstcw [rsi + {defaults} + 4]",
                    load_cpu!(),
                    "mov [rsi + {cpus}], rax",
                    "ldmxcsr [rdi + {control}]",
                    "fldcw [rdi + {control} + 4]",
                    each!(8),
                    "fld tbyte ptr [rdi + {x87} + 16 * (7 - \\i)]",
                    ".endr",
                    $($load)*
                    ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
                    "mov r\\i, [rdi + {general} + 8 * (\\i - 8)]",
                    ".endr",
                    "lock inc qword ptr [rcx]",
                    "2:",
                    "pause",
                    "cmp [rcx], rdx",
                    "jb 2b",
                    $($store)*
                    ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
                    "mov [rsi + {general} + 8 * (\\i - 8)], r\\i",
                    ".endr",
                    each!(8),
                    "fstp tbyte ptr [rsi + {x87} + 16 * \\i]",
                    ".endr",
                    "stmxcsr [rsi + {control}]",
                    "fnstcw [rsi + {control} + 4]",
                    load_cpu!(),
                    "mov [rsi + {cpus} + 8], rax",
                    // An x87 stack that was not empty is a difference to report, not an error of later code.
                    "fninit",
                    "ldmxcsr [rsi + {defaults}]",
                    "fldcw [rsi + {defaults} + 4]",
                    defaults = const offset_of!(Block, defaults),
                    cpus = const offset_of!(Block, cpus),
                    control = const offset_of!(Registers, control),
                    x87 = const offset_of!(Registers, x87),
                    general = const offset_of!(Registers, general),
                    in("rdi") from,
                    in("rsi") to,
                    in("rcx") arrived,
                    in("rdx") target,
                    out("r12") _,
                    out("r13") _,
                    out("r14") _,
                    out("r15") _,
                    clobber_abi("sysv64"),
                );
            }
        }
    };
}

define_hold!(
    hold_sse,
    [each!(16), "movdqa xmm\\i, [rdi + 64 * \\i]", ".endr",],
    [each!(16), "movdqa [rsi + 64 * \\i], xmm\\i", ".endr",]
);

define_hold!(
    hold_avx,
    [each!(16), "vmovdqa ymm\\i, [rdi + 64 * \\i]", ".endr",],
    [each!(16), "vmovdqa [rsi + 64 * \\i], ymm\\i", ".endr", "vzeroupper",]
);

define_hold!(
    hold_avx512,
    [
        each!(32),
        "vmovdqa64 zmm\\i, [rdi + 64 * \\i]",
        ".endr",
        each!(8),
        "kmovq k\\i, [rdi + 2048 + 8 * \\i]",
        ".endr",
    ],
    [
        each!(32),
        "vmovdqa64 [rsi + 64 * \\i], zmm\\i",
        ".endr",
        each!(8),
        "kmovq [rsi + 2048 + 8 * \\i], k\\i",
        ".endr",
        "vzeroupper",
    ]
);

/// The offsets that [`hold_avx512`] uses as numbers.
const _: () = assert!(offset_of!(Registers, vectors) == 0 && offset_of!(Registers, masks) == 2048);
/// The assembly loads from the start of `Registers`, and stores to the start of a block.
const _: () = assert!(offset_of!(Block, registers) == 0);
