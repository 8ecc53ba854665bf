//! Mathematical functions.
//!
//! Results may differ between systems by a unit in the last place. So checksums are computed from rounded
//! means.

use std::hint::black_box;

use crate::random::Random;
use crate::rounds::{Loop, Outcome, Rounds};

/// All loops with mathematical functions.
pub(crate) const LOOPS: [Loop; 16] = [
    Loop {
        name: "exp",
        title: "1 M `f64::exp`",
        run: exp,
        checksums: [0x40cd_4880_0000_0000, 0x40cd_4880_0000_0000],
    },
    Loop {
        name: "exp2",
        title: "1 M `f64::exp2`",
        run: exp2,
        checksums: [0x40b2_1d00_0000_0000, 0x40b2_1d00_0000_0000],
    },
    Loop {
        name: "ln",
        title: "1 M `f64::ln`",
        run: ln,
        checksums: [0x40b7_2400_0000_0000, 0x40b7_2400_0000_0000],
    },
    Loop {
        name: "log2",
        title: "1 M `f64::log2`",
        run: log2,
        checksums: [0x40c0_b180_0000_0000, 0x40c0_b180_0000_0000],
    },
    Loop {
        name: "powf",
        title: "1 M `f64::powf`",
        run: powf,
        checksums: [0x40c8_8880_0000_0000, 0x40c8_8880_0000_0000],
    },
    Loop {
        name: "sin",
        title: "1 M `f64::sin`",
        run: sin,
        checksums: [0x402e_0000_0000_0000, 0x402e_0000_0000_0000],
    },
    Loop {
        name: "cos",
        title: "1 M `f64::cos`",
        run: cos,
        checksums: [0xc03a_0000_0000_0000, 0xc03a_0000_0000_0000],
    },
    Loop {
        name: "atan2",
        title: "1 M `f64::atan2`",
        run: atan2,
        checksums: [0x4018_0000_0000_0000, 0x4018_0000_0000_0000],
    },
    Loop {
        name: "exp-f32",
        title: "1 M `f32::exp`",
        run: exp_f32,
        checksums: [0x40cd_4880_0000_0000, 0x40cd_4880_0000_0000],
    },
    Loop {
        name: "exp2-f32",
        title: "1 M `f32::exp2`",
        run: exp2_f32,
        checksums: [0x40b2_1d00_0000_0000, 0x40b2_1d00_0000_0000],
    },
    Loop {
        name: "ln-f32",
        title: "1 M `f32::ln`",
        run: ln_f32,
        checksums: [0x40b7_2400_0000_0000, 0x40b7_2400_0000_0000],
    },
    Loop {
        name: "log2-f32",
        title: "1 M `f32::log2`",
        run: log2_f32,
        checksums: [0x40c0_b180_0000_0000, 0x40c0_b180_0000_0000],
    },
    Loop {
        name: "powf-f32",
        title: "1 M `f32::powf`",
        run: powf_f32,
        checksums: [0x40c8_8880_0000_0000, 0x40c8_8880_0000_0000],
    },
    Loop {
        name: "sin-f32",
        title: "1 M `f32::sin`",
        run: sin_f32,
        checksums: [0x402e_0000_0000_0000, 0x402e_0000_0000_0000],
    },
    Loop {
        name: "cos-f32",
        title: "1 M `f32::cos`",
        run: cos_f32,
        checksums: [0xc03a_0000_0000_0000, 0xc03a_0000_0000_0000],
    },
    Loop {
        name: "sqrt-floor",
        title: "4 M `f64::sqrt` and `floor`",
        run: sqrt_floor,
        checksums: [0x40dd_4c00_0000_0000, 0x40dd_4c00_0000_0000],
    },
];

/// Number of different arguments. So few arguments stay in the first-level cache.
const ARGUMENTS: u32 = 1000;

/// Calls a function a million times with arguments in an interval.
fn calls(rounds: &Rounds, [least, most]: [f64; 2], function: impl Fn(f64) -> f64) -> Outcome {
    let mut random = Random::new();
    let arguments: Vec<f64> = (0..ARGUMENTS).map(|_| random.between(least, most)).collect();
    let repetitions = rounds.scale(1000);
    let work = |arguments: &Vec<f64>| {
        let mut sum = 0.0;
        for _ in 0..repetitions {
            sum = black_box(black_box(arguments).iter().map(|argument| function(*argument)).sum());
        }
        (sum * 1e3 / f64::from(ARGUMENTS)).round().to_bits()
    };
    rounds.run(|| &arguments, work)
}

/// Calls a function of `f32` a million times with arguments in an interval.
fn calls_f32(rounds: &Rounds, [least, most]: [f64; 2], function: impl Fn(f32) -> f32) -> Outcome {
    let mut random = Random::new();
    #[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
    let arguments: Vec<f32> = (0..ARGUMENTS).map(|_| random.between(least, most) as f32).collect();
    let repetitions = rounds.scale(1000);
    let work = |arguments: &Vec<f32>| {
        let mut sum = 0.0;
        for _ in 0..repetitions {
            sum = black_box(black_box(arguments).iter().map(|argument| f64::from(function(*argument))).sum());
        }
        (sum * 1e3 / f64::from(ARGUMENTS)).round().to_bits()
    };
    rounds.run(|| &arguments, work)
}

/// Arguments of exponential functions.
const EXPONENTS: [f64; 2] = [-5.0, 5.0];

/// Arguments of logarithms.
const POSITIVE: [f64; 2] = [0.001, 1000.0];

/// Arguments of powers.
const BASES: [f64; 2] = [0.1, 10.0];

/// Arguments of trigonometric functions.
const ANGLES: [f64; 2] = [-10.0, 10.0];

fn exp(rounds: &Rounds) -> Outcome {
    calls(rounds, EXPONENTS, f64::exp)
}

fn exp2(rounds: &Rounds) -> Outcome {
    calls(rounds, EXPONENTS, f64::exp2)
}

fn ln(rounds: &Rounds) -> Outcome {
    calls(rounds, POSITIVE, f64::ln)
}

fn log2(rounds: &Rounds) -> Outcome {
    calls(rounds, POSITIVE, f64::log2)
}

fn powf(rounds: &Rounds) -> Outcome {
    calls(rounds, BASES, |base| base.powf(base * 0.3 - 1.0))
}

fn sin(rounds: &Rounds) -> Outcome {
    calls(rounds, ANGLES, f64::sin)
}

fn cos(rounds: &Rounds) -> Outcome {
    calls(rounds, ANGLES, f64::cos)
}

fn atan2(rounds: &Rounds) -> Outcome {
    calls(rounds, ANGLES, |angle| angle.atan2(1.5))
}

fn exp_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, EXPONENTS, f32::exp)
}

fn exp2_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, EXPONENTS, f32::exp2)
}

fn ln_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, POSITIVE, f32::ln)
}

fn log2_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, POSITIVE, f32::log2)
}

fn powf_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, BASES, |base| base.powf(base * 0.3 - 1.0))
}

fn sin_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, ANGLES, f32::sin)
}

fn cos_f32(rounds: &Rounds) -> Outcome {
    calls_f32(rounds, ANGLES, f32::cos)
}

/// The square root is an instruction. `floor` is a function, because the baseline of the targets lacks
/// SSE4.1.
fn sqrt_floor(rounds: &Rounds) -> Outcome {
    calls(rounds, POSITIVE, |number| (0..4).fold(number, |number, _| (number + 900.5).sqrt().floor()))
}
