//! The program of a guest's process: a few instructions that make one system call after another, as a list says, and
//! then jump to the guest's kernel.
//!
//! It is one read-only segment at a fixed address: headers, data for system calls, instructions, the list. It uses no stack and
//! no other memory, so that everything else can be unmapped.
#![expect(unsafe_code, reason = "its instructions are assembled here and read as bytes")]

use std::arch::global_asm;
use std::mem::offset_of;
use std::slice;

use hermit_interface::process::Cpu;

use super::script::CONTROL;

/// Where it is: what the kernel may map begins far above, and programs are often here.
pub(super) const BASE: u64 = 0x40_0000;

/// Size of the file's headers: the ELF header and two program headers.
const HEADERS: usize = 64 + 2 * 56;

/// Words of an entry of the list: number and arguments of a system call.
const STEP: usize = 7;
pub(super) const STEP_SIZE: usize = STEP * size_of::<u64>();

/// A number that no system call has: the end of the list. Its arguments are what the kernel gets, and where it begins.
const END: u64 = u64::MAX;

global_asm!(
    ".pushsection .rodata.uhyve_guest, \"a\", @progbits",
    // Other parts of this program, which the compiler may put into other objects, look at it.
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
    "add rbx, {step}",
    "test rax, rax",
    "jnz 2b",
    "cmp qword ptr [rbx - {step}], {clone}",
    "jne 2b",
    // A new thread: waits until its processor is started. Its third argument was where its identifier went.
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
    // A system call failed. Once the filter is there, nothing can be said.
    "4:",
    "cmp qword ptr [rbx], {sendmsg}",
    "je 7f",
    "mov r12d, eax",
    "neg r12d",
    "mov edi, {control}",
    "mov rsi, rbx",
    "mov edx, {step}",
    "mov eax, {write}",
    "syscall",
    "mov edi, r12d",
    "mov eax, {exit_group}",
    "syscall",
    "7:",
    "ud2",
    "uhyve_guest_code_end:",
    ".popsection",
    step = const STEP_SIZE,
    thread = const offset_of!(Cpu, thread),
    started = const offset_of!(Cpu, started),
    stack = const offset_of!(Cpu, stack),
    argument = const offset_of!(Cpu, argument),
    entry = const offset_of!(Cpu, entry),
    control = const CONTROL,
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

fn code() -> &'static [u8] {
    let (start, end) = (&raw const CODE, &raw const CODE_END);
    // SAFETY: both symbols are in one piece of read-only memory of this program, the second one behind the first.
    unsafe { slice::from_raw_parts(start, end.addr() - start.addr()) }
}

/// A program that is being written.
#[derive(Debug)]
pub(super) struct Program {
    file: Vec<u8>,
    list: Vec<u8>,
}

impl Program {
    pub(super) fn new() -> Self {
        Self { file: vec![0; HEADERS], list: Vec::new() }
    }

    /// Data for system calls; returns its address.
    pub(super) fn data(&mut self, bytes: &[u8]) -> u64 {
        self.file.resize(self.file.len().next_multiple_of(8), 0);
        let address = BASE + self.file.len() as u64;
        self.file.extend_from_slice(bytes);
        address
    }

    /// Makes this system call after those before; the others of the six arguments are 0. If it fails, the process ends.
    pub(super) fn call<const N: usize>(&mut self, number: libc::c_long, arguments: [u64; N]) {
        self.step(number.cast_unsigned(), arguments);
    }

    fn step<const N: usize>(&mut self, number: u64, arguments: [u64; N]) {
        const { assert!(N < STEP) };
        let rest = std::iter::repeat_n(0, STEP - 1 - N);
        for word in [number].into_iter().chain(arguments).chain(rest) {
            self.list.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// The file, which jumps to `entry` at last.
    pub(super) fn finish(mut self, entry: u64, argument: u64) -> Vec<u8> {
        self.step(END, [argument, entry]);
        let start = self.data(code());
        self.file.extend_from_slice(&self.list);
        let headers = headers(start, self.file.len() as u64);
        for (place, byte) in self.file.iter_mut().zip(headers.iter().flat_map(|word| word.to_le_bytes())) {
            *place = byte;
        }
        self.file
    }
}

/// The headers of a program (ELF-64 object file format, `Elf64_Ehdr` and `Elf64_Phdr`): one segment, and a stack that cannot be
/// executed.
fn headers(start: u64, size: u64) -> [u64; HEADERS / 8] {
    const MAGIC: u64 = u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0");
    const PROGRAM_FOR_X86_64: u64 = 2 | 62 << 16 | 1 << 32;
    const SIZES: u64 = 64 << 32 | 56 << 48;
    const SEGMENT: u64 = 1 | 5 << 32;
    const STACK: u64 = 0x6474_e551 | 6 << 32;
    [
        MAGIC,
        0,
        PROGRAM_FOR_X86_64,
        start,
        64,
        0,
        SIZES,
        2, // the file
        SEGMENT,
        0,
        BASE,
        BASE,
        size,
        size,
        0x1000, // all of it
        STACK,
        0,
        0,
        0,
        0,
        0,
        16, // nothing
    ]
}

/// The file is where it is mapped.
pub(super) const fn place_in_file(address: u64) -> u64 {
    address - BASE
}

/// The system call of a list's entry, as the program sends it when it has failed.
pub(super) fn number(step: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*step.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::{BASE, HEADERS, Program, STEP_SIZE, code, number, place_in_file};

    #[test]
    fn a_program_is_headers_data_code_and_a_list() {
        let mut program = Program::new();
        let data = program.data(b"abc");
        assert_eq!(program.data(b"d"), data + 8);
        program.call(7, [1, 2]);
        let file = program.finish(0x1234, 0x5678);
        assert_eq!(place_in_file(data), HEADERS as u64);
        assert_eq!(&file[HEADERS..HEADERS + 4], b"abc\0");
        let list = &file[file.len() - 2 * STEP_SIZE..];
        assert_eq!((number(list), number(&list[8..]), number(&list[24..])), (Some(7), Some(1), Some(0)));
        let end = &list[STEP_SIZE..];
        assert_eq!(
            (number(end), number(&end[8..]), number(&end[16..])),
            (Some(u64::MAX), Some(0x5678), Some(0x1234))
        );
        let code_start = file.len() - 2 * STEP_SIZE - code().len();
        assert_eq!(&file[code_start..][..code().len()], code());
        assert_eq!(number(&file[24..]), Some(BASE + code_start as u64));
        assert!((64..256).contains(&code().len()));
    }
}
