//! Computations with vector intrinsics, compared with the same ones on scalars.

use std::arch::x86_64::{
    __m128d, __m128i, __m256d, __m256i, __m512d, __m512i, _mm_add_epi64, _mm_add_pd, _mm_div_pd,
    _mm_slli_epi64, _mm_srli_epi64, _mm_xor_si128, _mm256_add_epi64, _mm256_add_pd, _mm256_div_pd,
    _mm256_slli_epi64, _mm256_srli_epi64, _mm256_xor_si256, _mm512_add_epi64, _mm512_add_pd, _mm512_div_pd,
    _mm512_slli_epi64, _mm512_srli_epi64, _mm512_xor_si512,
};
use std::array;
use std::mem::transmute;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::registers::RegisterSet;

/// Number of vectors of integers, and of vectors of numbers, that a computation keeps at once.
const VECTORS: usize = 6;

/// Steps of a computation between two looks at the counter.
const STEPS: usize = 500;

/// Integers and numbers of a computation, in vectors of some lanes.
type State<const LANES: usize> = ([[u64; LANES]; VECTORS], [[f64; LANES]; VECTORS]);

/// Adds one to `arrived`, computes without a call until that is at least `target`, and panics if a result is
/// wrong.
pub(crate) fn compute(set: RegisterSet, arrived: &AtomicUsize, target: usize) {
    #[expect(unsafe_code, reason = "the compiler does not know what processor this is")]
    match set {
        // SAFETY: SSE2 is part of x86-64.
        RegisterSet::Sse => run(set, arrived, target, |state| unsafe { sse(state) }),
        // SAFETY: `RegisterSet::available`, which all sets come from, has found AVX2.
        RegisterSet::Avx => run(set, arrived, target, |state| unsafe { avx(state) }),
        // SAFETY: `RegisterSet::available`, which all sets come from, has found AVX-512F.
        RegisterSet::Avx512 => run(set, arrived, target, |state| unsafe { avx512(state) }),
    }
}

fn run<const LANES: usize>(
    set: RegisterSet,
    arrived: &AtomicUsize,
    target: usize,
    on_vectors: impl Fn(State<LANES>) -> State<LANES>,
) {
    let seed = |vector: usize, lane: usize| vector * LANES + lane + 1;
    let integers = array::from_fn(|vector| array::from_fn(|lane| seed(vector, lane) as u64));
    let numbers = array::from_fn(|vector| array::from_fn(|lane| 1.0 / seed(vector, lane) as f64));
    let start = (integers, numbers);
    let expected = on_scalars(start);
    arrived.fetch_add(1, AcqRel);
    loop {
        assert_eq!(on_vectors(start), expected, "{set}: results of a computation");
        if arrived.load(Acquire) >= target {
            return;
        }
    }
}

/// The computation on scalars.
fn on_scalars<const LANES: usize>((mut integers, mut numbers): State<LANES>) -> State<LANES> {
    for integer in integers.as_flattened_mut() {
        for _ in 0..STEPS {
            *integer ^= *integer << 13;
            *integer ^= *integer >> 7;
            *integer = integer.wrapping_add(*integer << 17);
        }
    }
    for number in numbers.as_flattened_mut() {
        for _ in 0..STEPS {
            // Rounded in nearly every step, so that another rounding mode has another result.
            *number = (*number + 2.0) / (*number + 3.0);
        }
    }
    (integers, numbers)
}

/// Defines the computation on vectors.
macro_rules! define_computation {
    (
        #[$attribute:meta] $name:ident, $lanes:literal, $integers:ty, $numbers:ty,
        $left:ident, $right:ident, $xor:ident, $add:ident, $add_numbers:ident, $divide:ident
    ) => {
        #[$attribute]
        fn $name((integers, numbers): State<$lanes>) -> State<$lanes> {
            // SAFETY: arrays and vectors have the same size, and every bit pattern is a value of both.
            #[expect(unsafe_code, reason = "safe conversions of vectors are not stable")]
            let (mut integers, mut numbers, two, three) = unsafe {
                (
                    transmute::<[[u64; $lanes]; VECTORS], [$integers; VECTORS]>(integers),
                    transmute::<[[f64; $lanes]; VECTORS], [$numbers; VECTORS]>(numbers),
                    transmute::<[f64; $lanes], $numbers>([2.0; $lanes]),
                    transmute::<[f64; $lanes], $numbers>([3.0; $lanes]),
                )
            };
            for _ in 0..STEPS {
                for (integer, number) in integers.iter_mut().zip(&mut numbers) {
                    *integer = $xor(*integer, $left::<13>(*integer));
                    *integer = $xor(*integer, $right::<7>(*integer));
                    *integer = $add(*integer, $left::<17>(*integer));
                    *number = $divide($add_numbers(*number, two), $add_numbers(*number, three));
                }
            }
            // SAFETY: vectors and arrays have the same size, and every bit pattern is a value of both.
            #[expect(unsafe_code, reason = "safe conversions of vectors are not stable")]
            unsafe {
                (
                    transmute::<[$integers; VECTORS], [[u64; $lanes]; VECTORS]>(integers),
                    transmute::<[$numbers; VECTORS], [[f64; $lanes]; VECTORS]>(numbers),
                )
            }
        }
    };
}

define_computation!(
    #[target_feature(enable = "sse2")]
    sse,
    2,
    __m128i,
    __m128d,
    _mm_slli_epi64,
    _mm_srli_epi64,
    _mm_xor_si128,
    _mm_add_epi64,
    _mm_add_pd,
    _mm_div_pd
);

define_computation!(
    #[target_feature(enable = "avx2")]
    avx,
    4,
    __m256i,
    __m256d,
    _mm256_slli_epi64,
    _mm256_srli_epi64,
    _mm256_xor_si256,
    _mm256_add_epi64,
    _mm256_add_pd,
    _mm256_div_pd
);

define_computation!(
    #[target_feature(enable = "avx512f")]
    avx512,
    8,
    __m512i,
    __m512d,
    _mm512_slli_epi64,
    _mm512_srli_epi64,
    _mm512_xor_si512,
    _mm512_add_epi64,
    _mm512_add_pd,
    _mm512_div_pd
);
