//! `memcpy`, `memmove` and `memset`, which the compiler calls for sizes that it does not know. They replace
//! the functions of `compiler_builtins`.
//!
//! The functions of `compiler_builtins` use three string instructions for each call, and each string
//! instruction takes tens of nanoseconds to start. The kernel has no vector registers. So the functions here
//! move short sizes in words, and long sizes by a single string instruction. The first and the last bytes are
//! moved as whole words, which may overlap, so that no size needs moves of single bytes.
//!
//! The functions are in assembly, since the compiler may turn a loop in Rust into a call of the same
//! function. They keep the direction flag clear, as the System V ABI demands.

use core::arch::naked_asm;

/// Maximum size in bytes that is moved in words. Larger sizes are moved by a string instruction.
const SHORT: usize = 256;

/// Jumps by the size in `rdx`: to label 4 for more than 16 bytes, 3 for 8 or more, 2 for 4 or more, 9 for
/// none. Continues for 1 to 3 bytes.
macro_rules! by_size {
    () => {
        "cmp rdx, 16
        ja 4f
        cmp edx, 8
        jae 3f
        cmp edx, 4
        jae 2f
        test edx, edx
        jz 9f"
    };
}

/// Copies `size` bytes, and returns `to`: C's `memcpy`.
///
/// # Safety
///
/// `size` bytes must be mapped at both addresses, those at `to` for writing. They must not overlap, unless
/// `to` is the lower address or there are at most 16.
#[unsafe(naked)]
#[cfg_attr(target_os = "none", unsafe(no_mangle))]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        by_size!(),
        // 1 to 3 bytes: the first, the middle and the last one.
        "mov r9d, edx
        shr r9d, 1
        movzx ecx, byte ptr [rsi]
        movzx r8d, byte ptr [rsi + rdx - 1]
        movzx r9d, byte ptr [rsi + r9]
        mov [rdi], cl
        mov [rdi + rdx - 1], r8b
        shr edx, 1
        mov [rdi + rdx], r9b
        9:
        ret
        2:
        mov ecx, [rsi]
        mov r8d, [rsi + rdx - 4]
        mov [rdi], ecx
        mov [rdi + rdx - 4], r8d
        ret
        3:
        mov rcx, [rsi]
        mov r8, [rsi + rdx - 8]
        mov [rdi], rcx
        mov [rdi + rdx - 8], r8
        ret",
        // More than 16 bytes: the last 16 are r8 and r9, and their place is r10.
        "4:
        mov r8, [rsi + rdx - 16]
        mov r9, [rsi + rdx - 8]
        lea r10, [rdi + rdx - 16]
        cmp rdx, {short}
        ja {copy_slow}
        5:
        mov rcx, [rsi]
        mov r11, [rsi + 8]
        mov [rdi], rcx
        mov [rdi + 8], r11
        add rsi, 16
        add rdi, 16
        cmp rdi, r10
        jb 5b
        mov [r10], r8
        mov [r10 + 8], r9
        ret",
        short = const SHORT,
        copy_slow = sym copy_slow,
    )
}

/// The end of [`memcpy`] for a long size.
///
/// # Safety
///
/// The contract of [`memcpy`], whose registers it takes over.
#[unsafe(naked)]
unsafe extern "C" fn copy_slow() {
    naked_asm!(
        // Moves words to aligned addresses, since unaligned stores are slow. Then stores the first 8 bytes.
        "mov r11, [rsi]
        mov ecx, edi
        neg ecx
        and ecx, 7
        add rsi, rcx
        add rdi, rcx
        sub rdx, rcx
        mov rcx, rdx
        shr rcx, 3
        rep movsq
        mov [rax], r11
        mov [r10], r8
        mov [r10 + 8], r9
        ret",
    )
}

/// Copies `size` bytes that may overlap, and returns `to`: C's `memmove`.
///
/// # Safety
///
/// `size` bytes must be mapped at both addresses, those at `to` for writing.
#[unsafe(naked)]
#[cfg_attr(target_os = "none", unsafe(no_mangle))]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    naked_asm!(
        "mov rcx, rdi
        sub rcx, rsi
        cmp rcx, rdx
        jae {memcpy}
        cmp rdx, 16
        jbe {memcpy}",
        // The destination begins within the source, so this copies from the end on. The first 16 bytes are in
        // r8 and r9.
        "mov rax, rdi
        mov r8, [rsi]
        mov r9, [rsi + 8]
        2:
        mov rcx, [rsi + rdx - 8]
        mov r11, [rsi + rdx - 16]
        mov [rdi + rdx - 8], rcx
        mov [rdi + rdx - 16], r11
        sub rdx, 16
        cmp rdx, 16
        ja 2b
        mov [rdi], r8
        mov [rdi + 8], r9
        ret",
        memcpy = sym memcpy,
    )
}

/// Sets `size` bytes to the low byte of `value`, and returns `to`: C's `memset`.
///
/// # Safety
///
/// `size` bytes must be mapped for writing.
#[unsafe(naked)]
#[cfg_attr(target_os = "none", unsafe(no_mangle))]
unsafe extern "C" fn memset(to: *mut u8, value: i32, size: usize) -> *mut u8 {
    naked_asm!(
        "mov r8, rdi
        movzx eax, sil
        mov rcx, 0x0101010101010101
        imul rax, rcx",
        by_size!(),
        // 1 to 3 bytes: the first, the last and the middle one.
        "mov [rdi], al
        mov [rdi + rdx - 1], al
        shr edx, 1
        mov [rdi + rdx], al
        jmp 9f
        2:
        mov [rdi], eax
        mov [rdi + rdx - 4], eax
        jmp 9f
        3:
        mov [rdi], rax
        mov [rdi + rdx - 8], rax
        jmp 9f",
        // More than 16 bytes: the place of the last 16 is r10.
        "4:
        lea r10, [rdi + rdx - 16]
        mov [r10], rax
        mov [r10 + 8], rax
        cmp rdx, {short}
        ja 6f
        5:
        mov [rdi], rax
        mov [rdi + 8], rax
        add rdi, 16
        cmp rdi, r10
        jb 5b
        jmp 9f",
        // Stores the first 8 bytes, then words to aligned addresses.
        "6:
        mov [rdi], rax
        mov ecx, edi
        neg ecx
        and ecx, 7
        add rdi, rcx
        sub rdx, rcx
        mov rcx, rdx
        shr rcx, 3
        rep stosq
        9:
        mov rax, r8
        ret",
        short = const SHORT,
    )
}

#[cfg(test)]
mod tests {
    use super::{SHORT, memcpy, memmove, memset};
    use std::vec::Vec;

    /// Bytes to check before and after those that are written.
    const MARGIN: usize = 24;

    fn sizes() -> impl Iterator<Item = usize> {
        (0..=SHORT + 40).chain([511, 512, 1000, 4095, 4096, 4097])
    }

    fn pattern(index: usize) -> u8 {
        (index % 251).to_le_bytes()[0].wrapping_mul(7)
    }

    /// Calls a function for all sizes and alignments, and compares all bytes with what they should be.
    fn check(write: impl Fn(*mut u8, *const u8, usize) -> *mut u8, expected: impl Fn(usize) -> u8) {
        for (size, to, from) in sizes().flat_map(|size| (0..9).map(move |to| (size, to, 7 * to % 9))) {
            let source: Vec<u8> = (0..size + from).map(|index| expected(index.wrapping_sub(from))).collect();
            let mut bytes: Vec<u8> = (0..size + 2 * MARGIN).map(pattern).collect();
            let start = bytes[MARGIN + to - 8..].as_mut_ptr();
            assert_eq!(write(start, source[from..].as_ptr(), size), start);
            let offset = |index: usize| index.wrapping_sub(MARGIN + to - 8);
            let value = |index| Some(offset(index)).filter(|&at| at < size).map_or(pattern(index), &expected);
            let wrong = (0..bytes.len()).find(|&index| bytes[index] != value(index));
            assert_eq!(wrong, None, "{size} bytes from {from} to {to}");
        }
    }

    #[test]
    fn memcpy_copies_all_sizes_and_nothing_else() {
        // SAFETY: `check` passes addresses of as many bytes in different vectors.
        check(|to, from, size| unsafe { memcpy(to, from, size) }, |index| !pattern(index));
    }

    #[test]
    fn memmove_copies_all_sizes_with_all_overlaps() {
        for size in sizes() {
            let fixed = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 100];
            for distance in fixed.into_iter().chain([size / 2, size.saturating_sub(1), size, size + 1]) {
                move_within(size, MARGIN + distance, MARGIN);
                move_within(size, MARGIN, MARGIN + distance);
            }
        }
    }

    fn move_within(size: usize, from: usize, to: usize) {
        let mut bytes: Vec<u8> = (0..from.max(to) + size + MARGIN).map(pattern).collect();
        let start = bytes.as_mut_ptr();
        // SAFETY: the vector has as many bytes after both offsets.
        unsafe { memmove(start.wrapping_add(to), start.wrapping_add(from), size) };
        let origin = |index| if index >= to && index < to + size { index - to + from } else { index };
        let wrong = (0..bytes.len()).find(|&index| bytes[index] != pattern(origin(index)));
        assert_eq!(wrong, None, "{size} bytes from {from} to {to}");
    }

    #[test]
    fn memset_sets_all_sizes_and_nothing_else() {
        for value in [0, 0xa5] {
            // SAFETY: `check` passes the address of as many bytes. Only the low byte of the value counts.
            check(|to, _, size| unsafe { memset(to, i32::from(value) | 0x100, size) }, |_| value);
        }
    }
}
