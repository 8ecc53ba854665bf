//! Registers as ptrace(2) has them.

use std::array;

use libc::{seccomp_data, user_fpregs_struct, user_regs_struct};
use nix::Result;
use nix::sys::ptrace;
use nix::sys::ptrace::regset::NT_PRFPREG;
use nix::unistd::Pid;

use super::super::listener::Answer;
use crate::engine::debug::{FloatingPoint, Registers};

/// What is in place of a system call's number where there is none.
const NO_CALL: u64 = u64::MAX;

/// What a system call has left that a stop has interrupted, and that the host's kernel makes again as if nothing had been
/// (linux/errno.h: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK).
const AGAIN: [i64; 4] = [-512, -513, -514, -516];

/// All registers of a stopped thread.
pub(super) fn read(thread: Pid) -> Result<Registers> {
    let registers = ptrace::getregs(thread)?;
    let floating_point = ptrace::getregset::<NT_PRFPREG>(thread)?;
    Ok(from_user(&registers, from_fpu(&floating_point)))
}

/// Sets all registers of a stopped thread but selectors.
pub(super) fn write(thread: Pid, wanted: &Registers) -> Result<()> {
    let mut registers = ptrace::getregs(thread)?;
    change(&mut registers, wanted);
    ptrace::setregs(thread, registers)?;
    let mut fpu = ptrace::getregset::<NT_PRFPREG>(thread)?;
    if from_fpu(&fpu) == wanted.floating_point {
        return Ok(());
    }
    to_fpu(&mut fpu, &wanted.floating_point);
    ptrace::setregset::<NT_PRFPREG>(thread, fpu)
}

/// The address of the next instruction.
pub(super) fn place(thread: Pid) -> Result<u64> {
    Ok(ptrace::getregs(thread)?.rip)
}

/// Moves a thread that has done an instruction of one byte back to it, and gives its address.
pub(super) fn step_back(thread: Pid) -> Result<u64> {
    move_by(thread, -1)
}

/// Undoes [`step_back`].
pub(super) fn step_forth(thread: Pid) -> Result<u64> {
    move_by(thread, 1)
}

fn move_by(thread: Pid, bytes: i64) -> Result<u64> {
    let mut registers = ptrace::getregs(thread)?;
    registers.rip = registers.rip.wrapping_add_signed(bytes);
    let place = registers.rip;
    ptrace::setregs(thread, registers).map(|()| place)
}

/// The system call that a thread is about to make.
pub(super) fn call(thread: Pid) -> Result<seccomp_data> {
    let registers = ptrace::getregs(thread)?;
    let [a, b, c, d, ..] = registers.orig_rax.to_le_bytes();
    let args = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    Ok(seccomp_data {
        nr: i32::from_le_bytes([a, b, c, d]),
        // The filter lets no other through to here.
        arch: 0,
        instruction_pointer: registers.rip,
        args,
    })
}

/// Has the system call that a thread is about to make be over, unless the host is to carry it out.
pub(super) fn answer(thread: Pid, answer: Answer) -> Result<()> {
    let result = match answer {
        Answer::Continue => return Ok(()),
        Answer::Value(value) => value,
        Answer::Error(error) => (-error).into(),
    };
    let registers = ptrace::getregs(thread)?;
    ptrace::setregs(thread, over(registers, result))
}

/// Has a system call that was interrupted by a stop be over, as if by a signal, which may happen at any time. A
/// step would wait for its end otherwise.
pub(super) fn end_interrupted_call(thread: Pid) -> Result<()> {
    let registers = ptrace::getregs(thread)?;
    if registers.orig_rax == NO_CALL || !AGAIN.contains(&registers.rax.cast_signed()) {
        return Ok(());
    }
    ptrace::setregs(thread, over(registers, (-libc::EINTR).into()))
}

const fn over(registers: user_regs_struct, result: i64) -> user_regs_struct {
    user_regs_struct { orig_rax: NO_CALL, rax: result.cast_unsigned(), ..registers }
}

fn from_user(from: &user_regs_struct, floating_point: FloatingPoint) -> Registers {
    let selector = |register: u64| {
        let [low, high, ..] = register.to_le_bytes();
        u16::from_le_bytes([low, high])
    };
    Registers {
        general: [
            from.rax, from.rbx, from.rcx, from.rdx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8, from.r9,
            from.r10, from.r11, from.r12, from.r13, from.r14, from.r15,
        ],
        instruction: from.rip,
        flags: from.eflags,
        selectors: [from.cs, from.ss, from.ds, from.es, from.fs, from.gs].map(selector),
        fs_base: from.fs_base,
        gs_base: from.gs_base,
        floating_point,
    }
}

fn change(registers: &mut user_regs_struct, wanted: &Registers) {
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15] = wanted.general;
    // A system call that was interrupted is not made again elsewhere.
    let orig_rax = if registers.rip == wanted.instruction { registers.orig_rax } else { NO_CALL };
    let (rip, eflags) = (wanted.instruction, wanted.flags);
    let Registers { fs_base, gs_base, .. } = *wanted;
    *registers = user_regs_struct {
        rax,
        rbx,
        rcx,
        rdx,
        rsi,
        rdi,
        rbp,
        rsp,
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        orig_rax,
        rip,
        eflags,
        fs_base,
        gs_base,
        ..*registers
    };
}

/// The first `N` bytes of a register's words.
fn bytes<const N: usize>(words: &[u32]) -> [u8; N] {
    let mut all = words.iter().flat_map(|word| word.to_le_bytes());
    array::from_fn(|_| all.next().unwrap_or(0))
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    array::from_fn(|word| u32::from_le_bytes(array::from_fn(|index| byte(word * 4 + index))))
}

fn from_fpu(from: &user_fpregs_struct) -> FloatingPoint {
    let (stack, _) = from.st_space.as_chunks::<4>();
    let (vectors, _) = from.xmm_space.as_chunks::<4>();
    let [tags, _] = from.ftw.to_le_bytes();
    FloatingPoint {
        stack: array::from_fn(|number| stack.get(number).map_or([0; 10], |words| bytes(words))),
        control: from.cwd,
        status: from.swd,
        tags,
        opcode: from.fop,
        instruction: from.rip,
        operand: from.rdp,
        vectors: array::from_fn(|number| {
            vectors.get(number).map_or(0, |words| u128::from_le_bytes(bytes(words)))
        }),
        vector_control: from.mxcsr,
    }
}

fn to_fpu(fpu: &mut user_fpregs_struct, from: &FloatingPoint) {
    (fpu.cwd, fpu.swd, fpu.ftw) = (from.control, from.status, from.tags.into());
    (fpu.fop, fpu.rip, fpu.rdp, fpu.mxcsr) =
        (from.opcode, from.instruction, from.operand, from.vector_control);
    let (stack, _) = fpu.st_space.as_chunks_mut::<4>();
    for (to, from) in stack.iter_mut().zip(&from.stack) {
        *to = words(from);
    }
    let (vectors, _) = fpu.xmm_space.as_chunks_mut::<4>();
    for (to, from) in vectors.iter_mut().zip(&from.vectors) {
        *to = words(&from.to_le_bytes());
    }
}
