//! Memory functions of programs: moves of vectors, since a string instruction takes as long to start as these
//! take for a hundred bytes. Long sizes are moved by vectors of 32 bytes where the processor has them.
//! Emulated processors are slow at vectors: there, string instructions move long sizes.
//!
//! The first and the last bytes are moved as a whole, whatever they have in common, so no size needs moves of
//! single bytes. What a move may overwrite is read before it, as `memmove` requires. Set-up makes this a
//! module of `compiler_builtins`, whose functions have the contracts of C's, and return the destination.
//!
//! Functions that are not inline are `extern "C"`: it is known that these do not unwind, so that a function
//! ends with a jump to them. The compiler ends functions for AVX2 with `vzeroupper`: otherwise, instructions
//! of SSE would wait for the upper halves of registers.

use super::impls;
use super::selection::{self, STRING_MOVES_BYTES, STRING_MOVES_VECTORS, STRING_MOVES_WORDS};
use super::vectors::{Block, Vector, load_block, store_block};
use core::arch::asm;
use core::arch::x86_64::{__m128i, __m256i};

const VECTOR: usize = size_of::<__m128i>();
const BLOCK: usize = 4 * VECTOR;

/// From so many bytes on, the fastest way on this processor is selected.
const LONG: usize = 256;

/// From so many bytes on, fast string instructions are faster than vectors.
const VERY_LONG: usize = 4096;

// Moves of blocks move a vector, and then at least one block.
const _: () = assert!(LONG >= size_of::<__m256i>() + size_of::<Block<__m256i>>());

/// Copies at most two blocks: reads all bytes before it writes the first one.
#[inline(always)]
unsafe fn copy_short(dest: *mut u8, src: *const u8, count: usize) {
    if count > BLOCK {
        let (first, last) = (load_block::<__m128i>(src), load_block::<__m128i>(src.add(count - BLOCK)));
        store_block(dest, first);
        store_block(dest.add(count - BLOCK), last);
    } else if count > 2 * VECTOR {
        // As a pair, vectors would be moved by the stack.
        let last = count - VECTOR;
        let vectors = [0, VECTOR, last - VECTOR, last].map(|at| __m128i::load(src.add(at)));
        vectors[0].store(dest);
        vectors[1].store(dest.add(VECTOR));
        vectors[2].store(dest.add(last - VECTOR));
        vectors[3].store(dest.add(last));
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
pub unsafe fn copy_forward(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
    if count >= LONG {
        return copy_long(dest, src, count);
    }
    if count <= 2 * BLOCK {
        copy_short(dest, src, count);
    } else {
        copy_blocks::<__m128i>(dest, src, count);
    }
    dest
}

#[inline(never)]
unsafe extern "C" fn copy_long(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
    let moves = selection::string_moves();
    if moves & STRING_MOVES_WORDS != 0 {
        impls::copy_forward(dest, src, count);
    } else if moves & STRING_MOVES_BYTES != 0
        && count >= VERY_LONG
        && src.addr().wrapping_sub(dest.addr()) >= BLOCK
    {
        // If the destination is shortly before the source, the processor moves single bytes.
        asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rdi") dest => _,
            inout("rsi") src => _,
            options(nostack, preserves_flags)
        );
    } else if moves & STRING_MOVES_VECTORS != 0 {
        // SAFETY: the processor has AVX2, and the caller's conditions are those of the function.
        return unsafe { copy_wide(dest, src, count) };
    } else {
        copy_blocks::<__m128i>(dest, src, count);
    }
    dest
}

#[target_feature(enable = "avx2")]
unsafe extern "C" fn copy_wide(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
    copy_blocks::<__m256i>(dest, src, count);
    dest
}

/// Copies at least a vector and a block.
#[inline(always)]
unsafe fn copy_blocks<V: Vector>(dest: *mut u8, src: *const u8, count: usize) {
    let (vector, block) = (size_of::<V>(), size_of::<Block<V>>());
    let (first, last) = (V::load(src), load_block::<V>(src.add(count - block)));
    // Writes that cross cache lines are slow: only the first and the last ones do.
    let mut done = vector - dest.addr() % vector;
    let second = load_block::<V>(src.add(done));
    first.store(dest);
    store_block(dest.add(done), second);
    done += block;
    while done < count - block {
        store_block(dest.add(done), load_block::<V>(src.add(done)));
        done += block;
    }
    store_block(dest.add(count - block), last);
}

#[inline(always)]
pub unsafe fn copy_backward(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
    if count >= LONG && selection::knows_fast_wide_vectors() {
        // SAFETY: the processor has AVX2, and the caller's conditions are those of the function.
        return unsafe { copy_wide_backward(dest, src, count) };
    }
    if count <= 2 * BLOCK {
        copy_short(dest, src, count);
    } else {
        copy_blocks_backward::<__m128i>(dest, src, count);
    }
    dest
}

#[target_feature(enable = "avx2")]
unsafe extern "C" fn copy_wide_backward(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
    copy_blocks_backward::<__m256i>(dest, src, count);
    dest
}

/// Copies at least a vector and a block, the last bytes first.
#[inline(always)]
unsafe fn copy_blocks_backward<V: Vector>(dest: *mut u8, src: *const u8, count: usize) {
    let (vector, block) = (size_of::<V>(), size_of::<Block<V>>());
    let (first, last) = (load_block::<V>(src), V::load(src.add(count - vector)));
    let mut left = count - dest.add(count).addr() % vector - block;
    let second = load_block::<V>(src.add(left));
    last.store(dest.add(count - vector));
    store_block(dest.add(left), second);
    while left > block {
        left -= block;
        store_block(dest.add(left), load_block::<V>(src.add(left)));
    }
    store_block(dest, first);
}

#[inline(always)]
pub unsafe fn set_bytes(dest: *mut u8, c: u8, count: usize) -> *mut u8 {
    if count >= LONG {
        return set_long(dest, c, count);
    }
    let word = u64::from(c) * 0x0101_0101_0101_0101;
    if count > BLOCK {
        set_blocks::<__m128i>(dest, c, count);
    } else if count > 2 * VECTOR {
        set_ends(dest, [__m128i::splat(c); 2], count);
    } else if count >= VECTOR {
        set_ends(dest, __m128i::splat(c), count);
    } else if count >= 8 {
        set_ends(dest, word, count);
    } else if count >= 4 {
        set_ends(dest, word as u32, count);
    } else if count >= 2 {
        set_ends(dest, word as u16, count);
    } else if count == 1 {
        *dest = c;
    }
    dest
}

#[inline(never)]
unsafe extern "C" fn set_long(dest: *mut u8, c: u8, count: usize) -> *mut u8 {
    let moves = selection::string_moves();
    if moves & STRING_MOVES_WORDS != 0 {
        impls::set_bytes(dest, c, count);
    } else if moves & STRING_MOVES_BYTES != 0 && count >= VERY_LONG {
        asm!(
            "rep stosb",
            inout("rcx") count => _,
            inout("rdi") dest => _,
            in("al") c,
            options(nostack, preserves_flags)
        );
    } else if moves & STRING_MOVES_VECTORS != 0 {
        // SAFETY: the processor has AVX2, and the caller's conditions are those of the function.
        return unsafe { set_wide(dest, c, count) };
    } else {
        set_blocks::<__m128i>(dest, c, count);
    }
    dest
}

#[target_feature(enable = "avx2")]
unsafe extern "C" fn set_wide(dest: *mut u8, c: u8, count: usize) -> *mut u8 {
    set_blocks::<__m256i>(dest, c, count);
    dest
}

/// Sets more than one block.
#[inline(always)]
unsafe fn set_blocks<V: Vector>(dest: *mut u8, c: u8, count: usize) {
    let (vector, block) = (size_of::<V>(), size_of::<Block<V>>());
    let value = V::splat(c);
    value.store(dest);
    let mut done = vector - dest.addr() % vector;
    while done < count - block {
        store_block(dest.add(done), [value; 4]);
        done += block;
    }
    store_block(dest.add(count - block), [value; 4]);
}

/// Sets the first and the last bytes, as many of each as `T` has: at least half of `count`.
#[inline(always)]
unsafe fn set_ends<T: Copy>(dest: *mut u8, value: T, count: usize) {
    dest.cast::<T>().write_unaligned(value);
    dest.add(count - size_of::<T>()).cast::<T>().write_unaligned(value);
}
