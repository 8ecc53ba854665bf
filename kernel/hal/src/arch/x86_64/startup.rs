//! Start of secondary CPUs, from real mode to the kernel.
//!
//! The first CPU prepares a [`StartBlock`] for each of the others, and copies the trampoline, a piece of
//! assembly, to a page below 1 MiB. A STARTUP IPI can only name a page below 1 MiB, and makes a secondary CPU
//! start there in real mode. The trampoline switches it to 64-bit mode with the kernel's page tables. Then
//! the CPU takes the next number, finds the start block of this number, and calls the kernel on its own
//! stack. In a process of Linux, CPUs are threads that start in 64-bit mode, so there is no trampoline
//! ([`entry_states`]).

use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use hermit_base::try_alloc::TryBox;
use hermit_interface::MAX_CPUS;

use super::local::Base;
use super::processor::Processor;
use super::segments::Gdt;
use super::stacks::{StackMemory, Stacks};
use crate::fallible::OutOfMemory;

/// Memory that secondary CPUs need, from the layers above.
pub(crate) trait CpuResources: StackMemory {
    /// Allocates the CPU-local block of the CPU of this number.
    fn local(number: u32) -> Result<Base, OutOfMemory>;
}

/// The function that each secondary CPU calls on its own stack.
pub(crate) type CpuEntry = fn(&'static Processor) -> !;

/// Data that a secondary CPU finds when it starts.
#[repr(C)]
#[derive(Debug)]
struct StartBlock {
    /// The stack pointer.
    stack: u64,
    processor: Processor,
    entry: CpuEntry,
}

/// The prepared blocks by CPU number; null where there is none.
static STARTS: [AtomicPtr<StartBlock>; MAX_CPUS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CPUS];

/// Number of the next CPU. CPUs take numbers in the order in which they arrive in the trampoline.
static NEXT: AtomicU32 = AtomicU32::new(1);

// The trampoline: a page that the kernel copies to an address below 1 MiB. A CPU enters it at its start, in
// real mode, with the code segment at the page. The kernel fills in the words from `hermit_start_table` on
// after copying.
global_asm!(
    ".pushsection .rodata.hermit_start, \"a\", @progbits",
    ".balign 16",
    ".code16",
    "hermit_start:",
    "cli",
    "cld",
    "movw %cs, %ax",
    "movw %ax, %ds",
    "lgdtl hermit_start_table - hermit_start",
    // 64-bit paging: PAE, the page tables, long mode with no-execute pages. Then paging and protection at the
    // same time.
    "movl %cr4, %eax",
    "orl ${pae}, %eax",
    "movl %eax, %cr4",
    "movl hermit_start_root - hermit_start, %eax",
    "movl %eax, %cr3",
    "movl ${efer}, %ecx",
    "rdmsr",
    "orl ${long_mode}, %eax",
    "wrmsr",
    "movl ${cr0}, %eax",
    "movl %eax, %cr0",
    "ljmpl *(hermit_start_far - hermit_start)",
    ".code64",
    "hermit_start_long:",
    "movq hermit_start_entry(%rip), %rax",
    "jmpq *%rax",
    ".balign 8",
    // A 64-bit code segment for the far jump. Its accessed bit is already set: the processor would set it,
    // but the page is read-only.
    "hermit_start_segments:",
    ".quad 0",
    ".quad 0x00209b0000000000",
    "hermit_start_table:",
    ".word 15",
    ".long 0",
    ".balign 8",
    "hermit_start_root:",
    ".quad 0",
    "hermit_start_far:",
    ".long 0",
    ".word 8",
    ".balign 8",
    "hermit_start_entry:",
    ".quad 0",
    "hermit_start_end:",
    ".popsection",
    pae = const 1 << 5,
    efer = const 0xc000_0080_u32,
    long_mode = const 1 << 8 | 1 << 11,
    // Paging, write protection, extension type, protection.
    cr0 = const 0x8001_0011_u32,
    options(att_syntax),
);

unsafe extern "C" {
    static hermit_start: u8;
    static hermit_start_long: u8;
    static hermit_start_segments: u8;
    static hermit_start_table: u8;
    static hermit_start_root: u8;
    static hermit_start_far: u8;
    static hermit_start_entry: u8;
    static hermit_start_end: u8;
}

/// Physical addresses of trampolines are below this, since real mode cannot reach more.
pub(crate) const TRAMPOLINE_LIMIT: u64 = 1 << 20;

/// Offset of a label in the trampoline.
fn offset(label: *const u8) -> usize {
    label.addr() - (&raw const hermit_start).addr()
}

/// Code of a trampoline at a physical address below [`TRAMPOLINE_LIMIT`], for the page tables at `root`.
/// Returns `None` if `root` has more than 32 bits, since real mode cannot load such an address.
pub(crate) fn trampoline(physical: u64, root: u64) -> Option<[u8; 4096]> {
    let root = u32::try_from(root).ok()?;
    let mut page = [0; 4096];
    let size = offset(&raw const hermit_start_end);
    // SAFETY: the labels are the start and the end of the code above, which is initialised, never written,
    // and shorter than a page.
    let code = unsafe { core::slice::from_raw_parts(&raw const hermit_start, size) };
    page[..size].copy_from_slice(code);
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    // The page is below 1 MiB, so its addresses have 32 bits.
    let address = |label: *const u8| (physical + offset(label) as u64).to_le_bytes();
    put(offset(&raw const hermit_start_table) + 2, &address(&raw const hermit_start_segments)[..4]);
    put(offset(&raw const hermit_start_root), &root.to_le_bytes());
    put(offset(&raw const hermit_start_far), &address(&raw const hermit_start_long)[..4]);
    let entry = (enter as *const ()).addr() as u64;
    put(offset(&raw const hermit_start_entry), &entry.to_le_bytes());
    Some(page)
}

/// Allocates the data of CPUs 1 to `count - 1`. Each of them will call `entry`. Returns the number of CPUs
/// for which there was memory, including the first CPU.
pub(crate) fn prepare<R: CpuResources>(count: u32, entry: CpuEntry) -> u32 {
    let numbers = (1..count).zip(STARTS.iter().skip(1));
    let prepared = numbers.map_while(|(number, slot)| {
        let start = prepare_one::<R>(number, entry).ok()?;
        slot.store(ptr::from_ref(start).cast_mut(), Release);
        Some(())
    });
    1 + u32::try_from(prepared.count()).unwrap_or_default()
}

fn prepare_one<R: CpuResources>(number: u32, entry: CpuEntry) -> Result<&'static StartBlock, OutOfMemory> {
    let stacks = Stacks::new::<R>(number)?;
    let table = Gdt::with_stacks(stacks.interrupts)?;
    let processor = Processor { local: R::local(number)?, stacks: stacks.interrupts, table };
    Ok(TryBox::leak(TryBox::try_new(StartBlock { stack: stacks.own, processor, entry })?))
}

/// Registers with which a CPU that is already in 64-bit mode enters the kernel.
#[derive(Debug)]
pub(crate) struct EntryState {
    /// The instruction pointer.
    pub(crate) entry: u64,
    /// The stack pointer. It is as after a call, but the return address is never used.
    pub(crate) stack: u64,
    /// The register of the first argument.
    pub(crate) argument: u64,
}

/// Initial registers of the prepared CPUs, from number 1 on.
pub(crate) fn entry_states() -> impl Iterator<Item = EntryState> {
    STARTS.iter().skip(1).map_while(|slot| {
        let start = slot.load(Acquire);
        // SAFETY: the pointer is null or, stored by `prepare`, that of a value that is never freed nor
        // written.
        let stack = unsafe { start.as_ref() }?.stack;
        Some(EntryState {
            entry: (started as *const ()).addr() as u64,
            stack: stack - size_of::<u64>() as u64,
            argument: start.addr() as u64,
        })
    })
}

/// The last part of the trampoline, in 64-bit mode and without a stack. It takes the next number and the
/// block that was prepared for this number.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov eax, 1",
        "lock xadd [rip + {next}], eax",
        "cmp eax, {max_cpus}",
        "jae 2f",
        "lea rcx, [rip + {starts}]",
        "mov rdi, [rcx + rax * 8]",
        "test rdi, rdi",
        "jz 2f",
        "mov rsp, [rdi + {stack}]",
        "xor ebp, ebp",
        "call {started}",
        // More CPUs have started than blocks were prepared: this one stops.
        "2:",
        "hlt",
        "jmp 2b",
        next = sym NEXT,
        max_cpus = const MAX_CPUS,
        starts = sym STARTS,
        stack = const offset_of!(StartBlock, stack),
        started = sym started,
    )
}

extern "C" fn started(start: &'static StartBlock) -> ! {
    (start.entry)(&start.processor)
}
