//! The last unmask, and preemption of threads by interrupts.
//!
//! An interrupt handler cannot switch threads itself, since it runs on an interrupt stack. Instead, it
//! changes the address to which it returns: the preempted thread continues at [`entry`], on its own stack,
//! and this code saves all registers and calls the scheduler like any other function.
//!
//! A preempted thread gets here as if it had called [`entry`] between two of its instructions, with
//! interrupts masked. All its registers are live, and so may be the memory below its stack pointer (the red
//! zone of the System V ABI). If its stack pointer is wrong, the first push faults and is reported like any
//! other access.

use core::arch::{asm, naked_asm};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::local::{MASK, RESUME};

/// Actions of the kernel at the last unmask and on preemption. The type is a parameter of the functions
/// below, so that their assembly calls the hooks directly.
pub(crate) trait PreemptHooks {
    /// Handles the pending lines, and switches to another thread if one should run. Called on the thread's
    /// own stack with interrupts masked once, and returns in the same state.
    extern "C" fn preempted();

    /// Handles the pending lines after the last unmask. Called with interrupts unmasked, and returns in the
    /// same state.
    extern "C" fn handle_pending();
}

/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: usize = 128;

/// Size of the FXSAVE area in bytes (SDM volume 1, section 10.5.1).
const FXSAVE_SIZE: u32 = 512;

/// State component of XSAVE: the upper halves of AVX's registers (SDM volume 1, section 13.1).
const UPPER_HALVES: u32 = 1 << 2;

/// Size of the save area for the vector registers in bytes, a multiple of 64; bit 0 is set if XSAVE is used.
static AREA: AtomicU32 = AtomicU32::new(FXSAVE_SIZE);

/// State components that XSAVE saves: the low half of XCR0 (SDM volume 1, section 13.1).
static COMPONENTS: AtomicU32 = AtomicU32::new(0);

/// Saves vector registers by XSAVE from now on: these components, in `size` bytes.
pub(super) fn use_xsave(components: u32, size: u32) {
    COMPONENTS.store(components, Relaxed);
    AREA.store(size.next_multiple_of(64) | 1, Relaxed);
}

/// Address at which a preempted thread continues. The caller must store the address at which the thread was
/// interrupted in [`LocalHeader::resume`](super::local::LocalHeader::resume) of its CPU.
pub(crate) fn entry<H: PreemptHooks>() -> u64 {
    (preempt::<H> as *const ()).addr() as u64
}

/// Pushes the caller-saved registers and points `rbp` at them.
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

/// Saves all registers, calls [`PreemptHooks::preempted`], restores all registers and returns to where the
/// thread was interrupted.
///
/// Empties the x87 stack before the call, and clears pending x87 exceptions of this thread. If the hook
/// switches to another thread, that thread returns from a function call, and there the System V ABI demands
/// an empty x87 stack.
#[unsafe(naked)]
unsafe extern "C" fn preempt<H: PreemptHooks>() {
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
        // XRSTOR faults unless the header is zero where XSAVE does not write it (SDM volume 1, section 13.8).
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
        // The upper halves of AVX's registers may be in use. If the hook switches to another thread, that
        // thread may run SSE code without XRSTOR. Each SSE instruction would then wait for the upper halves
        // (Intel's optimization manual: mixing AVX with SSE).
        "test eax, {upper_halves}",
        "jz 6f",
        "vzeroupper",
        "6:",
        "fninit",
        "call {preempted}",
        "mov eax, [rip + {components}]",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "jmp 3f",
        "2:",
        "fxsave64 [rsp]",
        "fninit",
        "call {preempted}",
        "fxrstor64 [rsp]",
        "3:",
        restore!(),
        "dec dword ptr gs:[{mask}]",
        "jz 5f",
        "popfq",
        "ret {red_zone}",
        "5:",
        "inc dword ptr gs:[{mask}]",
        "jmp 4b",
        red_zone = const RED_ZONE,
        resume = const RESUME,
        mask = const MASK,
        area = sym AREA,
        upper_halves = const UPPER_HALVES,
        components = sym COMPONENTS,
        preempted = sym H::preempted,
    )
}

/// Calls [`PreemptHooks::handle_pending`] and preserves all registers.
#[unsafe(naked)]
unsafe extern "C" fn keep_registers<H: PreemptHooks>() {
    naked_asm!(
        save!(),
        "and rsp, -16",
        "call {handle}",
        restore!(),
        "ret",
        handle = sym H::handle_pending,
    )
}

/// Calls [`PreemptHooks::handle_pending`]. The caller seldom gets here, so the call is made such that the
/// caller's usual path needs neither a register nor a stack frame for it.
#[inline]
fn call_handle_pending<H: PreemptHooks>() {
    // SAFETY: `keep_registers` preserves every register except the flags, which are not declared as
    // preserved, and aligns the stack itself. The kernel's target, on which this is executed, has no red
    // zone: the memory below the stack pointer is unused. So the code around this finds all memory that it
    // uses unchanged. That is the promise of `nostack` to the compiler.
    unsafe { asm!("call {handle}", handle = sym keep_registers::<H>, options(nostack)) };
}

/// Decrements the mask depth of the calling CPU. If it reaches zero and a line is pending, calls
/// [`PreemptHooks::handle_pending`]. The caller seldom needs that call, so its usual path needs neither a
/// register nor a stack frame for it.
#[inline]
pub(crate) fn unmask<H: PreemptHooks>() {
    // SAFETY: the GS base is that of a block with a `LocalHeader` at its start (see `local::block`), and its
    // mask is an atomic that only this CPU uses. If an interrupt arrives between the first two instructions,
    // it handles the lines itself, and may move the thread to another CPU: at worst the hook finds nothing to
    // do. `keep_registers` preserves every register except the flags, which are not declared as preserved,
    // and aligns the stack itself. The kernel's target, on which this is executed, has no red zone: the
    // memory below the stack pointer is unused. So the code around this finds all memory that it uses
    // unchanged. That is the promise of `nostack` to the compiler.
    unsafe {
        asm!(
            "dec dword ptr gs:[{mask}]",
            "jz {handle}",
            mask = const MASK,
            handle = label { call_handle_pending::<H>() },
            options(nostack),
        );
    }
}
