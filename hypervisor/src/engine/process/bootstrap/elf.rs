//! Bootstrap ELF program: a loop that makes a list of system calls, and then jumps to the guest's kernel.
//!
//! A new process must set itself up by system calls: confine itself, map the VM's memory, start a thread for
//! each CPU, and install a seccomp filter. The hypervisor builds the list of these calls in advance, with all
//! arguments, and stores it in the program. So the program has no logic except the loop. It uses neither a
//! stack nor any other writable memory, so it can unmap everything else. It is one read-only segment at a
//! fixed address: ELF headers, data for system calls, code, the list.
#![expect(unsafe_code, reason = "its instructions are assembled here and read as bytes")]

use std::arch::global_asm;
use std::mem::offset_of;
use std::slice;

use hermit_interface::process::SharedCpu;

use crate::engine::process::fds::CONTROL_FD;

/// Virtual address of the program: the usual one of executables, far below the addresses that the kernel may
/// map.
pub(super) const BASE: u64 = 0x40_0000;

/// Size in bytes of the ELF header and two program headers.
const HEADERS: usize = 64 + 2 * 56;

/// Number of 64-bit words of a list entry: number and six arguments of a system call.
const ENTRY_WORDS: usize = 7;

/// Size of a list entry in bytes.
pub(in super::super) const ENTRY_SIZE: usize = ENTRY_WORDS * size_of::<u64>();

/// End marker of the list, in place of a system call's number. Its arguments are the kernel's argument and
/// entry point.
const END: u64 = u64::MAX;

global_asm!(
    ".pushsection .rodata.uhyve_guest, \"a\", @progbits",
    // Global, because the compiler may put the functions that read the code into other object files.
    ".globl uhyve_guest_code, uhyve_guest_code_end",
    ".hidden uhyve_guest_code, uhyve_guest_code_end",
    "uhyve_guest_code:",
    "lea rbx, [rip + uhyve_guest_code_end]",
    // The next system call.
    "2:",
    "mov rax, [rbx]",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "cmp rax, -1",
    "je 6f",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "syscall",
    "cmp rax, -4095",
    "jae 4f",
    "add rbx, {entry_size}",
    "test rax, rax",
    "jnz 2b",
    "cmp qword ptr [rbx - {entry_size}], {clone}",
    "jne 2b",
    // In a new thread: wait on a futex until the kernel starts this CPU. rdx still holds clone's third
    // argument, the address of the thread ID.
    "lea rbx, [rdx - {thread}]",
    "3:",
    "mov eax, [rbx + {started}]",
    "test eax, eax",
    "jnz 5f",
    "lea rdi, [rbx + {started}]",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "mov eax, {futex}",
    "syscall",
    "jmp 3b",
    "5:",
    "mov rsp, [rbx + {stack}]",
    "mov rdi, [rbx + {argument}]",
    "xor ebp, ebp",
    "jmp [rbx + {entry}]",
    "6:",
    "xor ebp, ebp",
    "jmp rsi",
    // A system call failed: send its list entry to the hypervisor, and exit with errno. A failed `sendmsg`
    // raises SIGILL instead, because the seccomp filter is already installed, and allows neither of these
    // calls.
    "4:",
    "cmp qword ptr [rbx], {sendmsg}",
    "je 7f",
    "mov r12d, eax",
    "neg r12d",
    "mov edi, {control}",
    "mov rsi, rbx",
    "mov edx, {entry_size}",
    "mov eax, {write}",
    "syscall",
    "mov edi, r12d",
    "mov eax, {exit_group}",
    "syscall",
    "7:",
    "ud2",
    "uhyve_guest_code_end:",
    ".popsection",
    entry_size = const ENTRY_SIZE,
    thread = const offset_of!(SharedCpu, thread),
    started = const offset_of!(SharedCpu, started),
    stack = const offset_of!(SharedCpu, stack),
    argument = const offset_of!(SharedCpu, argument),
    entry = const offset_of!(SharedCpu, entry),
    control = const CONTROL_FD,
    clone = const libc::SYS_clone,
    futex = const libc::SYS_futex,
    sendmsg = const libc::SYS_sendmsg,
    write = const libc::SYS_write,
    exit_group = const libc::SYS_exit_group,
);

unsafe extern "C" {
    #[link_name = "uhyve_guest_code"]
    static CODE: u8;
    #[link_name = "uhyve_guest_code_end"]
    static CODE_END: u8;
}

/// Returns the assembled code.
fn code() -> &'static [u8] {
    let (start, end) = (&raw const CODE, &raw const CODE_END);
    // SAFETY: the assembly above defines both symbols in one section of one object file, the first at the
    // start and the second at the end of the code, so the range is initialised memory of one allocation. The
    // section is read-only: no write can conflict with the `'static` reference.
    unsafe { slice::from_raw_parts(start, end.addr() - start.addr()) }
}

/// Builder of the ELF file.
#[derive(Debug)]
pub(super) struct BootstrapElf {
    file: Vec<u8>,
    list: Vec<u8>,
}

impl BootstrapElf {
    pub(super) fn new() -> Self {
        Self { file: vec![0; HEADERS], list: Vec::new() }
    }

    /// Appends data for system calls, and returns its virtual address.
    pub(super) fn data(&mut self, bytes: &[u8]) -> u64 {
        self.file.resize(self.file.len().next_multiple_of(8), 0);
        let address = BASE + self.file.len() as u64;
        self.file.extend_from_slice(bytes);
        address
    }

    /// Appends a system call to the list. Missing arguments are 0. If the call fails, the process exits.
    pub(super) fn call<const N: usize>(&mut self, number: libc::c_long, arguments: [u64; N]) {
        self.entry(number.cast_unsigned(), arguments);
    }

    fn entry<const N: usize>(&mut self, number: u64, arguments: [u64; N]) {
        const { assert!(N < ENTRY_WORDS) };
        let rest = std::iter::repeat_n(0, ENTRY_WORDS - 1 - N);
        for word in [number].into_iter().chain(arguments).chain(rest) {
            self.list.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Returns the ELF file. After the last system call, its code jumps to `entry` with `argument`.
    pub(super) fn finish(mut self, entry: u64, argument: u64) -> Vec<u8> {
        self.entry(END, [argument, entry]);
        let start = self.data(code());
        self.file.extend_from_slice(&self.list);
        let headers = headers(start, self.file.len() as u64);
        for (to, byte) in self.file.iter_mut().zip(headers.iter().flat_map(|word| word.to_le_bytes())) {
            *to = byte;
        }
        self.file
    }
}

/// ELF header and program headers (`Elf64_Ehdr`, `Elf64_Phdr`): one segment (PT_LOAD), and a stack that is
/// not executable (PT_GNU_STACK).
fn headers(start: u64, size: u64) -> [u64; HEADERS / 8] {
    const MAGIC: u64 = u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0");
    /// Type ET_EXEC, machine EM_X86_64, version.
    const TYPE: u64 = 2 | 62 << 16 | 1 << 32;
    /// Sizes of the ELF header and of a program header.
    const SIZES: u64 = 64 << 32 | 56 << 48;
    /// PT_LOAD with PF_R and PF_X; PT_GNU_STACK with PF_R and PF_W.
    const SEGMENT: u64 = 1 | 5 << 32;
    const STACK: u64 = 0x6474_e551 | 6 << 32;
    const HEADER_COUNT: u64 = 2;
    const ALIGNMENT: u64 = 0x1000;
    #[rustfmt::skip]
    let headers = [
        MAGIC, 0, TYPE, start, 64, 0, SIZES, HEADER_COUNT,
        SEGMENT, 0, BASE, BASE, size, size, ALIGNMENT,
        STACK, 0, 0, 0, 0, 0, 16,
    ];
    headers
}

/// Converts a virtual address of the program into an offset in its file.
pub(super) const fn file_offset(address: u64) -> u64 {
    address - BASE
}

/// Returns the system call's number in a list entry that the program has sent because the call failed.
pub(in super::super) fn syscall_number(entry: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*entry.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::{BASE, BootstrapElf, ENTRY_SIZE, HEADERS, code, file_offset, syscall_number as word};

    #[test]
    fn file_is_headers_data_code_and_list() {
        let mut elf = BootstrapElf::new();
        let data = elf.data(b"abc");
        assert_eq!(elf.data(b"d"), data + 8);
        elf.call(7, [1, 2]);
        let file = elf.finish(0x1234, 0x5678);
        assert_eq!(file_offset(data), HEADERS as u64);
        assert_eq!(&file[HEADERS..HEADERS + 4], b"abc\0");
        let list = &file[file.len() - 2 * ENTRY_SIZE..];
        assert_eq!((word(list), word(&list[8..]), word(&list[24..])), (Some(7), Some(1), Some(0)));
        let end = &list[ENTRY_SIZE..];
        assert_eq!(
            (word(end), word(&end[8..]), word(&end[16..])),
            (Some(u64::MAX), Some(0x5678), Some(0x1234))
        );
        let code_start = file.len() - 2 * ENTRY_SIZE - code().len();
        assert_eq!(&file[code_start..][..code().len()], code());
        assert_eq!(word(&file[24..]), Some(BASE + code_start as u64));
        assert!((64..256).contains(&code().len()));
    }
}
