//! From real mode, in which a CPU other than the first starts, to the kernel.

use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use spin::Once;

use super::local::{self, Local};
use super::processor::Processor;
use super::segments::{StackTops, Table};
use super::stacks::Stacks;
use crate::memory::{self, StartPage, shootdown};
use crate::platform;

/// What a CPU needs when it starts.
#[repr(C)]
#[derive(Debug)]
struct Start {
    stack: u64,
    local: Local,
    interrupts: StackTops,
    table: &'static Table,
}

/// By CPU; null where there is none.
static STARTS: [AtomicPtr<Start>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];

/// The next CPU's number: they take them in the order in which they get here.
static NEXT: AtomicU32 = AtomicU32::new(1);

static MAIN: Once<fn(u32) -> !> = Once::new();

// A page that is copied to below 1 MiB and entered at its start, in real mode, with the code segment at the page. The
// words at `hermit_start_table` and behind are filled in after copying.
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
    // 64-bit paging: PAE, the page tables, long mode with no-execute pages, then paging and protection at once.
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
    // A code segment for 64-bit mode, as the processor wants one to jump into. It is marked as accessed, for the page is
    // read-only and the processor would mark it.
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

/// Offset of a label in the page.
fn offset(label: *const u8) -> usize {
    label.addr() - (&raw const hermit_start).addr()
}

/// The page's contents at its place.
fn page(place: &StartPage) -> [u8; 4096] {
    let mut page = [0; 4096];
    let size = offset(&raw const hermit_start_end);
    // SAFETY: the labels delimit the code, which is shorter than a page.
    let code = unsafe { core::slice::from_raw_parts(&raw const hermit_start, size) };
    page[..size].copy_from_slice(code);
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    // The page lies below 1 MiB, so its addresses have 32 bits.
    let address = |label: *const u8| (place.physical + offset(label) as u64).to_le_bytes();
    put(offset(&raw const hermit_start_table) + 2, &address(&raw const hermit_start_segments)[..4]);
    put(offset(&raw const hermit_start_root), &place.root.to_le_bytes());
    put(offset(&raw const hermit_start_far), &address(&raw const hermit_start_long)[..4]);
    let entry = (enter as *const ()).addr() as u64;
    put(offset(&raw const hermit_start_entry), &entry.to_le_bytes());
    page
}

/// Prepares CPUs with the numbers 1 to `count - 1`, which will call `main`. Returns for how many CPUs there was memory,
/// the first one included.
fn prepare(count: u32, main: fn(u32) -> !) -> u32 {
    MAIN.call_once(|| main);
    let mut prepared = 1;
    for number in 1..count {
        let Ok(stacks) = Stacks::new(number) else { break };
        let Some(table) = Table::with_stacks(stacks.interrupts) else { break };
        let start =
            Start { stack: stacks.own, local: Local::new(number), interrupts: stacks.interrupts, table };
        let Some(start) = memory::leak(start) else { break };
        STARTS[number as usize % STARTS.len()].store(ptr::from_ref(start).cast_mut(), Relaxed);
        prepared += 1;
    }
    prepared
}

/// Prepares to start CPUs in real mode. Returns the number of the page at which they start, and how many CPUs there will be
/// then; `None` if none can be started.
pub(crate) fn prepare_real_mode(count: u32, main: fn(u32) -> !) -> Option<(u8, u32)> {
    let prepared = prepare(count, main);
    // Real mode loads 32 bits of the page tables' address.
    let place = memory::start_page(page).filter(|place| u32::try_from(place.root).is_ok())?;
    let page = u8::try_from(place.physical >> 12).ok()?;
    (prepared > 1).then_some((page, prepared))
}

/// How a CPU that is in 64-bit mode from the start is to begin.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// Its first instruction.
    pub(crate) entry: u64,
    /// The stack pointer, as after a call that never returns.
    pub(crate) stack: u64,
    /// What the first argument's register holds.
    pub(crate) argument: u64,
}

/// Prepares CPUs that are in 64-bit mode from the start: those with the numbers from 1 on, in their order.
pub(crate) fn prepare_threads(count: u32, main: fn(u32) -> !) -> impl Iterator<Item = Beginning> {
    let prepared = prepare(count, main);
    let starts = STARTS.iter().take(prepared as usize).skip(1).map(|start| start.load(Relaxed));
    starts.map(|start| {
        // SAFETY: `prepare` has put a reference there that lives for ever.
        let stack = unsafe { (*start).stack };
        Beginning {
            entry: (started as *const ()).addr() as u64,
            stack: stack - size_of::<u64>() as u64,
            argument: start.addr() as u64,
        }
    })
}

/// In 64-bit mode, without a stack: takes a number and what has been prepared for it.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov eax, 1",
        "lock xadd [rip + {next}], eax",
        "cmp eax, 64",
        "jae 2f",
        "lea rcx, [rip + {starts}]",
        "mov rdi, [rcx + rax * 8]",
        "test rdi, rdi",
        "jz 2f",
        "mov rsp, [rdi + {stack}]",
        "xor ebp, ebp",
        "call {started}",
        // More CPUs came than have been prepared for.
        "2:",
        "hlt",
        "jmp 2b",
        next = sym NEXT,
        starts = sym STARTS,
        stack = const offset_of!(Start, stack),
        started = sym started,
    )
}

extern "C" fn started(start: &'static Start) -> ! {
    let platform = platform::current();
    platform.enter(&Processor { local: &start.local, stacks: start.interrupts, table: start.table });
    platform.init_cpu(local::number());
    // From here on it is asked to forget mappings, and can answer.
    shootdown::join();
    platform.enable_interrupts();
    match MAIN.get() {
        Some(main) => main(local::number()),
        None => platform.stop(),
    }
}
