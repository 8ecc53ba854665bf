//! Comparisons of memory: of words, then of vectors.

use super::selection;
use super::vectors::{Block, Vector};
use core::arch::x86_64::{__m128i, __m256i};

const VECTOR: usize = size_of::<__m128i>();
const BLOCK: usize = 4 * VECTOR;

/// From so many bytes on, wide vectors are used if the processor has them.
const LONG: usize = 256;

const _: () = assert!(LONG > size_of::<Block<__m256i>>());

/// As `memcmp`: words are compared as numbers whose first byte is the highest one.
#[inline(always)]
pub unsafe fn compare_bytes(a: *const u8, b: *const u8, count: usize) -> i32 {
    if count >= 8 {
        // Most strings that are sorted differ here.
        let (first, other) = (word(a), word(b));
        return if first != other { order(first, other) } else { compare_rest(a, b, count) };
    }
    let (a, b) = if count >= 4 {
        let ends =
            |from: *const u8| u64::from(half_word(from)) << 32 | u64::from(half_word(from.add(count - 4)));
        (ends(a), ends(b))
    } else if count > 0 {
        // The first, the middle and the last byte.
        let bytes = |from: *const u8| {
            let [first, middle, last] = [*from, *from.add(count / 2), *from.add(count - 1)];
            u64::from(first) << 16 | u64::from(middle) << 8 | u64::from(last)
        };
        (bytes(a), bytes(b))
    } else {
        return 0;
    };
    order(a, b)
}

/// Compares at least 8 bytes whose first 8 are equal. Bytes that are equal are read twice where that
/// needs fewer branches.
#[inline(always)]
unsafe fn compare_rest(a: *const u8, b: *const u8, count: usize) -> i32 {
    if count <= VECTOR {
        return order(word(a.add(count - 8)), word(b.add(count - 8)));
    }
    if count >= LONG && selection::knows_fast_wide_vectors() {
        // SAFETY: the processor has AVX2, and the caller's conditions are those of the function.
        return unsafe { compare_wide(a, b, count) };
    }
    if count > BLOCK {
        return compare_blocks::<__m128i>(a, b, count);
    }
    let are_equal = if count <= 2 * VECTOR {
        let last = count - VECTOR;
        __m128i::ALL == equal_bytes::<__m128i>(a, b) & equal_bytes::<__m128i>(a.add(last), b.add(last))
    } else {
        are_vectors_equal::<__m128i>(a, b, [0, VECTOR, count - 2 * VECTOR, count - VECTOR])
    };
    if are_equal { 0 } else { compare_vectors::<__m128i>(a, b, 0, count) }
}

#[target_feature(enable = "avx2")]
unsafe extern "C" fn compare_wide(a: *const u8, b: *const u8, count: usize) -> i32 {
    compare_blocks::<__m256i>(a, b, count)
}

/// Compares more than a block.
#[inline(always)]
unsafe fn compare_blocks<V: Vector>(a: *const u8, b: *const u8, count: usize) -> i32 {
    let last = count - size_of::<Block<V>>();
    let mut done = 0;
    while done < last && is_block_equal::<V>(a, b, done) {
        done += size_of::<Block<V>>();
    }
    if done >= last && is_block_equal::<V>(a, b, last) { 0 } else { compare_vectors::<V>(a, b, done, count) }
}

/// Returns a bit for each byte of a vector, which is set if it is equal to the other one.
#[inline(always)]
unsafe fn equal_bytes<V: Vector>(a: *const u8, b: *const u8) -> u32 {
    equal::<V>(a, b, 0).mask()
}

/// True if the vectors at these offsets are equal.
#[inline(always)]
unsafe fn are_vectors_equal<V: Vector>(a: *const u8, b: *const u8, offsets: [usize; 4]) -> bool {
    let [first, second, third, fourth] = offsets;
    let [first, second] = [equal::<V>(a, b, first), equal::<V>(a, b, second)];
    let [third, fourth] = [equal::<V>(a, b, third), equal::<V>(a, b, fourth)];
    V::ALL == first.and(second).and(third.and(fourth)).mask()
}

/// Vector of the bytes at an offset that are equal.
#[inline(always)]
unsafe fn equal<V: Vector>(a: *const u8, b: *const u8, at: usize) -> V {
    V::load(a.add(at)).equal(V::load(b.add(at)))
}

/// True if the blocks at an offset are equal.
#[inline(always)]
unsafe fn is_block_equal<V: Vector>(a: *const u8, b: *const u8, at: usize) -> bool {
    let vector = size_of::<V>();
    are_vectors_equal::<V>(a, b, [at, at + vector, at + 2 * vector, at + 3 * vector])
}

/// Compares at least a vector by vectors, from an offset on. The bytes before it are equal.
#[inline(always)]
unsafe fn compare_vectors<V: Vector>(a: *const u8, b: *const u8, mut done: usize, count: usize) -> i32 {
    let last = count - size_of::<V>();
    loop {
        let at = if done < last { done } else { last };
        let mask = equal_bytes::<V>(a.add(at), b.add(at));
        if mask != V::ALL {
            let at = at + mask.trailing_ones() as usize;
            return i32::from(*a.add(at)) - i32::from(*b.add(at));
        }
        if at == last {
            return 0;
        }
        done += size_of::<V>();
    }
}

/// The first eight bytes as a number.
#[inline(always)]
unsafe fn word(from: *const u8) -> u64 {
    from.cast::<u64>().read_unaligned().swap_bytes()
}

/// The first four bytes as a number.
#[inline(always)]
unsafe fn half_word(from: *const u8) -> u32 {
    from.cast::<u32>().read_unaligned().swap_bytes()
}

#[inline(always)]
fn order(a: u64, b: u64) -> i32 {
    i32::from(a > b) - i32::from(a < b)
}
