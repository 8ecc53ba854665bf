//! MXCSR and the x87 control word: each thread has its own, across calls too.

use std::arch::asm;
use std::ptr;
use std::thread;
use std::time::Duration;

/// MXCSR and the x87 control word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlWords {
    mxcsr: u32,
    x87: u16,
    /// Explicit padding: the size is that of one word of 64 bits.
    padding: u16,
}

/// Rounding control of MXCSR (SDM volume 1, section 10.2.3). It has four values.
const MXCSR_ROUNDING: u32 = 13;

/// Flush-to-zero and denormals-are-zeros of MXCSR.
const MXCSR_ZEROS: u32 = 1 << 15 | 1 << 6;

/// Rounding control of the x87 control word (SDM volume 1, section 8.1.5).
const X87_ROUNDING: u16 = 10;

/// Precision control of the x87 control word: 64 bits by default, this is 53 bits.
const X87_DOUBLE: u16 = 0x0200;

/// Precision control's mask.
const X87_PRECISION: u16 = 0x0300;

impl ControlWords {
    /// The defaults of the System V ABI.
    pub(crate) const DEFAULT: Self = Self { mxcsr: 0x1f80, x87: 0x037f, padding: 0 };

    /// Returns one of sixteen values. None of them has the default x87 control word. All exceptions stay
    /// masked.
    pub(crate) fn numbered(number: usize) -> Self {
        let bits = u16::try_from(number % 16).unwrap_or_default();
        let rounding = u32::from(bits & 3) << MXCSR_ROUNDING;
        let zeros = if bits & 8 == 0 { 0 } else { MXCSR_ZEROS };
        // The two units do not round alike.
        let x87_rounding = ((bits + 1 + (bits >> 2)) & 3) << X87_ROUNDING;
        Self {
            mxcsr: Self::DEFAULT.mxcsr | rounding | zeros,
            x87: (Self::DEFAULT.x87 & !X87_PRECISION) | X87_DOUBLE | x87_rounding,
            padding: 0,
        }
    }

    /// The control words of the calling thread.
    pub(crate) fn current() -> Self {
        let mut words = Self { mxcsr: 0, x87: 0, padding: 0 };
        // SAFETY: both instructions store to a live value of their size and change nothing else.
        #[expect(unsafe_code, reason = "Rust has no function for these registers")]
        unsafe {
            asm!("stmxcsr [{0}]", "fnstcw [{0} + 4]", in(reg) &raw mut words, options(nostack, preserves_flags));
        }
        words
    }

    /// Calls a function with these control words, and returns those that the thread has afterwards. The
    /// function must not compute with floating-point numbers.
    pub(crate) fn call(self, function: extern "sysv64" fn()) -> Self {
        let (mut after, mut before) = (Self::DEFAULT, Self::DEFAULT);
        // SAFETY: the pointers are those of live values and in registers that the function preserves (System
        // V ABI). The stack is aligned at the start of an assembly block without `nostack`. `clobber_abi`
        // declares what the function may change. The control words are as before at the end; code under other
        // ones only calls the system.
        #[expect(unsafe_code, reason = "Rust code that computes must not see other control words")]
        unsafe {
            asm!(
                "stmxcsr [r12]",
                "fnstcw [r12 + 4]",
                "ldmxcsr [r13]",
                "fldcw [r13 + 4]",
                "call {function}",
                "stmxcsr [r14]",
                "fnstcw [r14 + 4]",
                "ldmxcsr [r12]",
                "fldcw [r12 + 4]",
                function = in(reg) function,
                in("r12") &raw mut before,
                in("r13") ptr::from_ref(&self),
                in("r14") &raw mut after,
                clobber_abi("sysv64"),
            );
        }
        after
    }
}

/// Panics unless a thread keeps its control words across switches of every kind, and a thread that it starts
/// has the defaults.
pub(crate) fn check(number: usize) {
    let words = ControlWords::numbered(number);
    for function in [yields, sleeps, spawns] {
        assert_eq!(words.call(function), words, "control words after a call");
        assert_eq!(ControlWords::current(), ControlWords::DEFAULT, "control words of the caller");
    }
}

extern "sysv64" fn yields() {
    (0..20).for_each(|_| thread::yield_now());
}

extern "sysv64" fn sleeps() {
    thread::sleep(Duration::from_micros(50));
}

extern "sysv64" fn spawns() {
    // Linux's threads inherit the words of the thread that starts them.
    let check = || {
        if cfg!(target_os = "hermit") {
            assert_eq!(ControlWords::current(), ControlWords::DEFAULT, "control words of a new thread");
        }
    };
    assert!(thread::spawn(check).join().is_ok(), "a new thread panicked");
}
