//! Memory functions of programs: moves of vectors, since a string instruction takes as long to start as these take for a hundred bytes.
//! Emulated processors are slow at vectors: there, string instructions move what is long.
//!
//! The first and the last bytes are moved as a whole, whatever they have in common, so no size needs moves of single bytes. What a
//! move may overwrite is read before it, as `memmove` requires. Set-up makes this a module of `compiler_builtins`, whose functions have
//! the contracts of C's.

use super::impls;
use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm_storeu_si128,
};

const VECTOR: usize = size_of::<__m128i>();
const BLOCK: usize = 4 * VECTOR;

/// From so many bytes on, the kernel is asked what is faster.
const LONG: usize = 256;

/// From so many bytes on, fast string instructions are faster than vectors.
const VERY_LONG: usize = 4096;

/// Values of `string_moves` of `hermit-abi`.
const STRING_MOVES_WORDS: u32 = 1;
const STRING_MOVES_BYTES: u32 = 2;

type Block = [__m128i; 4];

unsafe extern "C" {
    /// `string_moves` of `hermit-abi`.
    safe fn sys_string_moves() -> u32;
}

#[inline(always)]
unsafe fn load(src: *const u8) -> __m128i {
    _mm_loadu_si128(src.cast())
}

#[inline(always)]
unsafe fn store(dest: *mut u8, vector: __m128i) {
    _mm_storeu_si128(dest.cast(), vector);
}

#[inline(always)]
unsafe fn load_block(src: *const u8) -> Block {
    [load(src), load(src.add(VECTOR)), load(src.add(2 * VECTOR)), load(src.add(3 * VECTOR))]
}

#[inline(always)]
unsafe fn store_block(dest: *mut u8, block: Block) {
    store(dest, block[0]);
    store(dest.add(VECTOR), block[1]);
    store(dest.add(2 * VECTOR), block[2]);
    store(dest.add(3 * VECTOR), block[3]);
}

/// Copies at most two blocks: reads all bytes before it writes the first one.
#[inline(always)]
unsafe fn copy_short(dest: *mut u8, src: *const u8, count: usize) {
    if count > BLOCK {
        let (first, last) = (load_block(src), load_block(src.add(count - BLOCK)));
        store_block(dest, first);
        store_block(dest.add(count - BLOCK), last);
    } else if count > 2 * VECTOR {
        copy_ends::<[__m128i; 2]>(dest, src, count);
    } else if count >= VECTOR {
        copy_ends::<__m128i>(dest, src, count);
    } else if count >= 8 {
        copy_ends::<u64>(dest, src, count);
    } else if count >= 4 {
        copy_ends::<u32>(dest, src, count);
    } else if count >= 2 {
        copy_ends::<u16>(dest, src, count);
    } else if count == 1 {
        *dest = *src;
    }
}

/// Copies the first and the last bytes, as many of each as `T` has: at least half of `count`.
#[inline(always)]
unsafe fn copy_ends<T>(dest: *mut u8, src: *const u8, count: usize) {
    let last = count - size_of::<T>();
    let ends = (src.cast::<T>().read_unaligned(), src.add(last).cast::<T>().read_unaligned());
    dest.cast::<T>().write_unaligned(ends.0);
    dest.add(last).cast::<T>().write_unaligned(ends.1);
}

#[inline(always)]
pub unsafe fn copy_forward(dest: *mut u8, src: *const u8, count: usize) {
    if count <= 2 * BLOCK {
        copy_short(dest, src, count);
    } else if count < LONG {
        copy_blocks(dest, src, count);
    } else {
        copy_long(dest, src, count);
    }
}

#[inline(never)]
unsafe fn copy_long(dest: *mut u8, src: *const u8, count: usize) {
    match sys_string_moves() {
        STRING_MOVES_WORDS => impls::copy_forward(dest, src, count),
        // If the destination is shortly before the source, the processor moves single bytes.
        STRING_MOVES_BYTES if count >= VERY_LONG && src.addr().wrapping_sub(dest.addr()) >= BLOCK => asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rdi") dest => _,
            inout("rsi") src => _,
            options(nostack, preserves_flags)
        ),
        _ => copy_blocks(dest, src, count),
    }
}

/// Copies more than two blocks.
#[inline(always)]
unsafe fn copy_blocks(dest: *mut u8, src: *const u8, count: usize) {
    let (first, last) = (load(src), load_block(src.add(count - BLOCK)));
    // Writes that cross cache lines are slow: only the first and the last ones do.
    let mut done = VECTOR - dest.addr() % VECTOR;
    let block = load_block(src.add(done));
    store(dest, first);
    store_block(dest.add(done), block);
    done += BLOCK;
    while done < count - BLOCK {
        store_block(dest.add(done), load_block(src.add(done)));
        done += BLOCK;
    }
    store_block(dest.add(count - BLOCK), last);
}

#[inline(always)]
pub unsafe fn copy_backward(dest: *mut u8, src: *const u8, count: usize) {
    if count <= 2 * BLOCK {
        return copy_short(dest, src, count);
    }
    let (first, last) = (load_block(src), load(src.add(count - VECTOR)));
    let mut left = count - dest.add(count).addr() % VECTOR;
    left -= BLOCK;
    let block = load_block(src.add(left));
    store(dest.add(count - VECTOR), last);
    store_block(dest.add(left), block);
    while left > BLOCK {
        left -= BLOCK;
        store_block(dest.add(left), load_block(src.add(left)));
    }
    store_block(dest, first);
}

#[inline(always)]
pub unsafe fn set_bytes(dest: *mut u8, c: u8, count: usize) {
    let word = u64::from(c) * 0x0101_0101_0101_0101;
    if count >= LONG {
        set_long(dest, c, count);
    } else if count > BLOCK {
        set_blocks(dest, c, count);
    } else if count > 2 * VECTOR {
        set_ends(dest, [_mm_set1_epi8(c as i8); 2], count);
    } else if count >= VECTOR {
        set_ends(dest, _mm_set1_epi8(c as i8), count);
    } else if count >= 8 {
        set_ends(dest, word, count);
    } else if count >= 4 {
        set_ends(dest, word as u32, count);
    } else if count >= 2 {
        set_ends(dest, word as u16, count);
    } else if count == 1 {
        *dest = c;
    }
}

#[inline(never)]
unsafe fn set_long(dest: *mut u8, c: u8, count: usize) {
    match sys_string_moves() {
        STRING_MOVES_WORDS => impls::set_bytes(dest, c, count),
        STRING_MOVES_BYTES if count >= VERY_LONG => asm!(
            "rep stosb",
            inout("rcx") count => _,
            inout("rdi") dest => _,
            in("al") c,
            options(nostack, preserves_flags)
        ),
        _ => set_blocks(dest, c, count),
    }
}

/// Sets more than one block.
#[inline(always)]
unsafe fn set_blocks(dest: *mut u8, c: u8, count: usize) {
    let vector = _mm_set1_epi8(c as i8);
    store(dest, vector);
    let mut done = VECTOR - dest.addr() % VECTOR;
    while done < count - BLOCK {
        store_block(dest.add(done), [vector; 4]);
        done += BLOCK;
    }
    store_block(dest.add(count - BLOCK), [vector; 4]);
}

/// Sets the first and the last bytes, as many of each as `T` has: at least half of `count`.
#[inline(always)]
unsafe fn set_ends<T: Copy>(dest: *mut u8, value: T, count: usize) {
    dest.cast::<T>().write_unaligned(value);
    dest.add(count - size_of::<T>()).cast::<T>().write_unaligned(value);
}

/// As `memcmp`: words are compared as numbers whose first byte is the highest one.
#[inline(always)]
pub unsafe fn compare_bytes(a: *const u8, b: *const u8, count: usize) -> i32 {
    if count >= 8 {
        // Most strings that are sorted differ here.
        let (first, other) = (word(a), word(b));
        return if first != other { order(first, other) } else { compare_rest(a, b, count) };
    }
    let (a, b) = if count >= 4 {
        let ends = |from: *const u8| u64::from(half_word(from)) << 32 | u64::from(half_word(from.add(count - 4)));
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

/// Compares at least 8 bytes, of which the first 8 are equal. Bytes that are equal are read twice where that needs fewer
/// branches.
#[inline(always)]
unsafe fn compare_rest(a: *const u8, b: *const u8, count: usize) -> i32 {
    if count <= VECTOR {
        return order(word(a.add(count - 8)), word(b.add(count - 8)));
    }
    let mut done = 0;
    let are_equal = if count <= 2 * VECTOR {
        ALL_EQUAL == equal_bytes(a, b) & equal_bytes(a.add(count - VECTOR), b.add(count - VECTOR))
    } else if count <= BLOCK {
        are_vectors_equal(a, b, [0, VECTOR, count - 2 * VECTOR, count - VECTOR])
    } else {
        while done < count - BLOCK && is_block_equal(a, b, done) {
            done += BLOCK;
        }
        done >= count - BLOCK && is_block_equal(a, b, count - BLOCK)
    };
    if are_equal { 0 } else { compare_vectors(a, b, done, count) }
}

/// Mask of [`equal_bytes`] of equal vectors.
const ALL_EQUAL: i32 = 0xffff;

/// Returns a bit for each byte of a vector, which is set if it is equal to the other one.
#[inline(always)]
unsafe fn equal_bytes(a: *const u8, b: *const u8) -> i32 {
    _mm_movemask_epi8(_mm_cmpeq_epi8(load(a), load(b)))
}

/// True if the vectors at these offsets are equal.
#[inline(always)]
unsafe fn are_vectors_equal(a: *const u8, b: *const u8, offsets: [usize; 4]) -> bool {
    let equal = |at: usize| _mm_cmpeq_epi8(load(a.add(at)), load(b.add(at)));
    let [first, second, third, fourth] = offsets;
    let both = _mm_and_si128(equal(first), equal(second));
    ALL_EQUAL == _mm_movemask_epi8(_mm_and_si128(both, _mm_and_si128(equal(third), equal(fourth))))
}

/// True if the blocks at an offset are equal.
#[inline(always)]
unsafe fn is_block_equal(a: *const u8, b: *const u8, at: usize) -> bool {
    are_vectors_equal(a, b, [at, at + VECTOR, at + 2 * VECTOR, at + 3 * VECTOR])
}

/// Compares more than a vector by vectors, from an offset on. The bytes before it are equal.
#[inline(always)]
unsafe fn compare_vectors(a: *const u8, b: *const u8, mut done: usize, count: usize) -> i32 {
    let last = count - VECTOR;
    loop {
        let at = if done < last { done } else { last };
        let mask = equal_bytes(a.add(at), b.add(at));
        if mask != ALL_EQUAL {
            let at = at + mask.trailing_ones() as usize;
            return i32::from(*a.add(at)) - i32::from(*b.add(at));
        }
        if at == last {
            return 0;
        }
        done += VECTOR;
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
