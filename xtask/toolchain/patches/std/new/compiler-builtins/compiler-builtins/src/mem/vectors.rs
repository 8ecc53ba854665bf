//! Vectors of 16 bytes, which each processor has, and of 32 bytes, by AVX2 (SDM volume 1, chapter 14).
//!
//! A function with a parameter of a vector type is always inline: it becomes a part of a function that is
//! compiled for processors with these vectors, and is as unsafe as that.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
    _mm_storeu_si128, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8,
    _mm256_set1_epi8, _mm256_storeu_si256,
};

/// A vector of bytes.
pub(super) trait Vector: Copy {
    /// Mask of bytes that are all set.
    const ALL: u32;

    unsafe fn load(from: *const u8) -> Self;

    unsafe fn store(self, to: *mut u8);

    /// The vector whose bytes are all equal to `byte`.
    unsafe fn splat(byte: u8) -> Self;

    /// Sets the bits of bytes that are equal, and clears all others.
    unsafe fn equal(self, other: Self) -> Self;

    unsafe fn and(self, other: Self) -> Self;

    /// The highest bit of each byte.
    unsafe fn mask(self) -> u32;
}

/// Implements the trait by instructions.
macro_rules! vector {
    ($vector:ty, $all:literal, $load:ident, $store:ident, $splat:ident, $equal:ident, $and:ident, $mask:ident) => {
        impl Vector for $vector {
            const ALL: u32 = $all;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                $load(from.cast())
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                $store(to.cast(), self);
            }

            #[inline(always)]
            unsafe fn splat(byte: u8) -> Self {
                $splat(byte as i8)
            }

            #[inline(always)]
            unsafe fn equal(self, other: Self) -> Self {
                $equal(self, other)
            }

            #[inline(always)]
            unsafe fn and(self, other: Self) -> Self {
                $and(self, other)
            }

            #[inline(always)]
            unsafe fn mask(self) -> u32 {
                $mask(self) as u32
            }
        }
    };
}

vector!(
    __m128i,
    0xffff,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_set1_epi8,
    _mm_cmpeq_epi8,
    _mm_and_si128,
    _mm_movemask_epi8
);

vector!(
    __m256i,
    0xffff_ffff,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_set1_epi8,
    _mm256_cmpeq_epi8,
    _mm256_and_si256,
    _mm256_movemask_epi8
);

/// Four vectors, which are moved together.
pub(super) type Block<V> = [V; 4];

#[inline(always)]
pub(super) unsafe fn load_block<V: Vector>(from: *const u8) -> Block<V> {
    let vector = size_of::<V>();
    [V::load(from), V::load(from.add(vector)), V::load(from.add(2 * vector)), V::load(from.add(3 * vector))]
}

#[inline(always)]
pub(super) unsafe fn store_block<V: Vector>(to: *mut u8, block: Block<V>) {
    let vector = size_of::<V>();
    block[0].store(to);
    block[1].store(to.add(vector));
    block[2].store(to.add(2 * vector));
    block[3].store(to.add(3 * vector));
}
