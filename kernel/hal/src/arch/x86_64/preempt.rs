//! Where an interrupt sends a thread that is to let another one run.
//!
//! The thread comes here as if it had been called between two of its instructions, with interrupts masked. All its
//! registers are live; what lies below its stack pointer may be too (the red zone of the System V ABI). If its stack
//! pointer is wrong, the first push faults and is reported like any other access.

use core::arch::naked_asm;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::local::{MASK_DEPTH, PENDING, RESUME};

/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: usize = 128;

/// Size of the area for FXSAVE.
const LEGACY_SIZE: u32 = 512;

/// Size of the area for the vector registers, a multiple of 64; with bit 0 set if XSAVE is to be used.
static AREA: AtomicU32 = AtomicU32::new(LEGACY_SIZE);

/// Which registers XSAVE saves: bits of XCR0, of which those above the 32nd are not used.
static COMPONENTS: AtomicU32 = AtomicU32::new(0);

/// Says how vector registers are saved: these of them, in `size` bytes, by XSAVE.
pub(super) fn use_xsave(components: u32, size: u32) {
    COMPONENTS.store(components, Relaxed);
    AREA.store(size.next_multiple_of(64) | 1, Relaxed);
}

/// The address to which an interrupt sends the thread.
pub(crate) fn entry() -> u64 {
    (preempt as *const ()).addr() as u64
}

/// Pushes what a function may change, and points `rbp` at it, with [`restore`].
macro_rules! save {
    () => {
        "push rbp
        mov rbp, rsp
        push rax
        push rcx
        push rdx
        push rsi
        push rdi
        push r8
        push r9
        push r10
        push r11"
    };
}

/// Pops what [`save`] pushed: nine words below `rbp`, and `rbp`.
macro_rules! restore {
    () => {
        "lea rsp, [rbp - 72]
        pop r11
        pop r10
        pop r9
        pop r8
        pop rdi
        pop rsi
        pop rdx
        pop rcx
        pop rax
        pop rbp"
    };
}

/// Saves everything, lets others run, restores everything and goes on where the thread was.
#[unsafe(naked)]
unsafe extern "C" fn preempt() {
    naked_asm!(
        "lea rsp, [rsp - {red_zone}]",
        "push qword ptr gs:[{resume}]",
        "pushfq",
        "4:",
        save!(),
        "cld",
        "mov ecx, [rip + {area}]",
        "mov eax, ecx",
        "and eax, -2",
        "sub rsp, rax",
        "and rsp, -64",
        "test ecx, 1",
        "jz 2f",
        // XRSTOR wants a header that is zero where XSAVE does not write it.
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, [rip + {components}]",
        "xor edx, edx",
        "xsave64 [rsp]",
        "call {preempted}",
        "mov eax, [rip + {components}]",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "jmp 3f",
        "2:",
        "fxsave64 [rsp]",
        "call {preempted}",
        "fxrstor64 [rsp]",
        "3:",
        restore!(),
        "dec dword ptr gs:[{depth}]",
        "cmp dword ptr gs:[{pending}], 0",
        "jne 5f",
        "popfq",
        "ret {red_zone}",
        "5:",
        "inc dword ptr gs:[{depth}]",
        "jmp 4b",
        red_zone = const RED_ZONE,
        resume = const RESUME,
        depth = const MASK_DEPTH,
        pending = const PENDING,
        area = sym AREA,
        components = sym COMPONENTS,
        preempted = sym crate::interrupts::preempted,
    )
}

/// Calls [`crate::interrupts::handle_noted`] and keeps all registers, so that whoever calls this, seldom, need not save any.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn noted() {
    naked_asm!(
        save!(),
        "and rsp, -16",
        "call {handle}",
        restore!(),
        "ret",
        handle = sym crate::interrupts::handle_noted,
    )
}
