//! The entry point: switches from 32-bit to 64-bit mode; later, enters the kernel.
//!
//! State at entry (multiboot §3.2, PVH): protected mode, paging off, flat segments, interrupts off, `ebx`
//! holds the address of the boot protocol's information. The page tables made here identity-map the first 4
//! GiB with 2 MiB pages.

use core::arch::{asm, global_asm};

use hermit_interface::address::AddressRange;
use hermit_interface::console::{ERROR_SERIAL_PORT, LINE_STATUS, NO_SERIAL_PORT, SERIAL_PORT};
use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};

const CR0_PE: u32 = 1 << 0;
const CR0_MP: u32 = 1 << 1;
const CR0_ET: u32 = 1 << 4;
const CR0_NE: u32 = 1 << 5;
const CR0_WP: u32 = 1 << 16;
const CR0_PG: u32 = 1 << 31;
const CR4_PAE: u32 = 1 << 5;
const EFER: u32 = 0xc000_0080;
const EFER_LME: u32 = 1 << 8;
const EFER_NXE: u32 = 1 << 11;
/// CPUID 8000_0001h, edx: no-execute pages and 64-bit mode.
const CPUID_NX_LM: u32 = 1 << 20 | 1 << 29;

const STACK_SIZE: usize = 32 << 10;

global_asm!(
    ".pushsection .text.entry, \"ax\", @progbits",
    ".code32",
    ".globl loader_entry",
    ".type loader_entry, @function",
    "loader_entry:",
    "cli",
    "cld",
    "mov ebp, eax", // multiboot: magic number
    // Clear .bss. With bss_end_addr 0, a multiboot boot loader has copied the rest of the file to this memory
    // instead of clearing it.
    "mov edi, offset loader_bss_start",
    "mov ecx, offset loader_bss_end",
    "sub ecx, edi",
    "shr ecx, 2",
    "xor eax, eax",
    "rep stosd",
    "mov esp, offset loader_stack_top",
    // Check for 64-bit mode and no-execute pages.
    "mov esi, ebx",
    "mov eax, 0x80000000",
    "cpuid",
    "cmp eax, 0x80000001",
    "jb 8f",
    "mov eax, 0x80000001",
    "cpuid",
    "and edx, {nx_lm}",
    "cmp edx, {nx_lm}",
    "jne 8f",
    // Fill four page directories with 2 MiB pages: present, writable, page size.
    "mov edi, offset loader_directories",
    "mov eax, 0x83",
    "2:",
    "mov dword ptr [edi], eax",
    "add edi, 8",
    "add eax, 0x200000",
    "jnc 2b",
    // Fill the page-directory-pointer table and the PML4.
    "mov eax, offset loader_directories + 3",
    "mov edi, offset loader_pointers",
    "mov ecx, 4",
    "3:",
    "mov dword ptr [edi], eax",
    "add edi, 8",
    "add eax, 0x1000",
    "loop 3b",
    "mov dword ptr [loader_root], offset loader_pointers + 3",
    "mov eax, offset loader_root",
    "mov cr3, eax",
    "mov eax, {cr4}",
    "mov cr4, eax",
    "mov ecx, {efer}",
    "rdmsr",
    "or eax, {lme_nxe}",
    "wrmsr",
    "mov eax, {cr0}",
    "mov cr0, eax",
    "lgdt [loader_gdt_pointer]",
    "push 8",
    "mov eax, offset loader_entry_64",
    "push eax",
    "retf",
    // Print the error to the serial port of standard error, and end the machine.
    "8:",
    "mov esi, offset loader_no_64",
    "mov dx, {error_line_status}",
    "in al, dx",
    "mov dx, {error_serial_port}",
    "cmp al, {no_serial_port}",
    "jne 9f",
    "mov dx, {serial_port}",
    "9:",
    "lodsb",
    "test al, al",
    "jz 7f",
    "out dx, al",
    "jmp 9b",
    "7:",
    "mov al, {failed}",
    "mov dx, {status_port}",
    "out dx, al",
    "mov dx, {quit_port}",
    "out dx, al",
    "6:",
    "hlt",
    "jmp 6b",
    ".size loader_entry, . - loader_entry",
    ".code64",
    "loader_entry_64:",
    "xor eax, eax",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "mov fs, eax",
    "mov gs, eax",
    "mov edi, ebp",
    // Second argument: `esi` still holds the address of the boot protocol's information.
    "xor ebp, ebp",
    "call {main}",
    "ud2",
    ".popsection",
    ".pushsection .rodata, \"a\", @progbits",
    "loader_no_64:",
    ".asciz \"hermit-loader: error: this processor has no 64-bit mode or no no-execute pages\\n\"",
    ".balign 8",
    "loader_gdt:",
    ".quad 0",
    ".quad 0x00209b0000000000", // code: present, executable, readable, accessed, 64-bit
    "loader_gdt_pointer:",
    ".word 15",
    ".long loader_gdt",
    ".popsection",
    ".pushsection .bss, \"aw\", @nobits",
    ".balign 4096",
    "loader_root: .skip 4096",
    "loader_pointers: .skip 4096",
    "loader_directories: .skip 4 * 4096",
    "loader_stack: .skip {stack_size}",
    "loader_stack_top:",
    ".popsection",
    nx_lm = const CPUID_NX_LM,
    cr4 = const CR4_PAE,
    efer = const EFER,
    lme_nxe = const EFER_LME | EFER_NXE,
    cr0 = const CR0_PG | CR0_WP | CR0_NE | CR0_ET | CR0_MP | CR0_PE,
    failed = const NOT_STARTED,
    status_port = const STATUS_PORT,
    quit_port = const QUIT_PORT,
    serial_port = const SERIAL_PORT,
    error_serial_port = const ERROR_SERIAL_PORT,
    error_line_status = const ERROR_SERIAL_PORT + LINE_STATUS,
    no_serial_port = const NO_SERIAL_PORT,
    stack_size = const STACK_SIZE,
    main = sym crate::main,
);

unsafe extern "C" {
    static loader_start: u8;
    static loader_end: u8;
}

/// Physical range of the loader itself.
pub(crate) fn extent() -> AddressRange {
    AddressRange {
        start: (&raw const loader_start).addr() as u64,
        end: (&raw const loader_end).addr() as u64,
    }
}

/// Switches to the kernel's page tables and jumps to its entry point.
///
/// # Safety
///
/// The page tables at `root` must map this code one to one, and the kernel's entry point at `entry`. In these
/// page tables, `info` must be the virtual address of the kernel's boot information.
pub(crate) unsafe fn enter(entry: u64, root: u64, info: u64) -> ! {
    // SAFETY: by the contract of this function the instruction after the load of CR3 is mapped where it was,
    // and the jump goes to the kernel's entry point with its argument in RDI. The kernel sets up a stack
    // before it uses one, and never returns.
    unsafe {
        asm!(
            "mov cr3, {root}",
            "xor ebp, ebp",
            "jmp {entry}",
            root = in(reg) root,
            entry = in(reg) entry,
            in("rdi") info,
            options(noreturn),
        )
    }
}
