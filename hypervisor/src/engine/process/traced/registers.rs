//! Registers of a traced thread.

use std::array;

use libc::{seccomp_data, user_fpregs_struct, user_regs_struct};
use nix::Result;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::super::seccomp_notify::CallResponse;
use super::requests;
use crate::engine::debug::{FpuState, Registers};

/// Value of `orig_rax` outside a system call.
const NO_CALL: u64 = u64::MAX;

/// Results by which the kernel marks an interrupted system call that it will restart (linux/errno.h:
/// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK).
const RESTART: [i64; 4] = [-512, -513, -514, -516];

/// Reads all registers of a stopped thread.
pub(super) fn read(thread: Pid) -> Result<Registers> {
    let registers = ptrace::getregs(thread)?;
    let fpu = requests::fpu_registers(thread)?;
    Ok(from_user(&registers, from_fpregs(&fpu)))
}

/// Writes all registers of a stopped thread except the segment selectors.
pub(super) fn write(thread: Pid, wanted: &Registers) -> Result<()> {
    let mut registers = ptrace::getregs(thread)?;
    change(&mut registers, wanted);
    ptrace::setregs(thread, registers)?;
    let mut fpu = requests::fpu_registers(thread)?;
    if from_fpregs(&fpu) == wanted.fpu {
        return Ok(());
    }
    change_fpregs(&mut fpu, &wanted.fpu);
    requests::set_fpu_registers(thread, fpu)
}

/// Reads the instruction pointer.
pub(super) fn rip(thread: Pid) -> Result<u64> {
    Ok(ptrace::getregs(thread)?.rip)
}

/// Moves the instruction pointer back to the breakpoint instruction before it, and returns its address.
pub(super) fn rewind_breakpoint(thread: Pid) -> Result<u64> {
    move_rip(thread, -1)
}

/// Undoes [`rewind_breakpoint`], and returns the new instruction pointer.
pub(super) fn skip_breakpoint(thread: Pid) -> Result<u64> {
    move_rip(thread, 1)
}

fn move_rip(thread: Pid, bytes: i64) -> Result<u64> {
    let mut registers = ptrace::getregs(thread)?;
    registers.rip = registers.rip.wrapping_add_signed(bytes);
    let rip = registers.rip;
    ptrace::setregs(thread, registers).map(|()| rip)
}

/// Reads the system call that a thread is about to make.
pub(super) fn system_call(thread: Pid) -> Result<seccomp_data> {
    let registers = ptrace::getregs(thread)?;
    let [a, b, c, d, ..] = registers.orig_rax.to_le_bytes();
    let args = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    Ok(seccomp_data {
        nr: i32::from_le_bytes([a, b, c, d]),
        // Not needed: the filter kills a process that makes a call of another architecture.
        arch: 0,
        instruction_pointer: registers.rip,
        args,
    })
}

/// Completes the system call that a thread is about to make.
pub(super) fn respond(thread: Pid, response: CallResponse) -> Result<()> {
    let result = match response {
        CallResponse::Value(value) => value,
        CallResponse::Error(error) => (-error).into(),
    };
    let registers = ptrace::getregs(thread)?;
    ptrace::setregs(thread, completed(registers, result))
}

/// Makes a system call that a stop has interrupted fail with EINTR, as a signal could at any time. Otherwise
/// the kernel would restart the call, and a single step would last until the call returns.
pub(super) fn end_interrupted_call(thread: Pid) -> Result<()> {
    let registers = ptrace::getregs(thread)?;
    if registers.orig_rax == NO_CALL || !RESTART.contains(&registers.rax.cast_signed()) {
        return Ok(());
    }
    ptrace::setregs(thread, completed(registers, (-libc::EINTR).into()))
}

/// Returns the registers after the system call has returned `result`.
const fn completed(registers: user_regs_struct, result: i64) -> user_regs_struct {
    user_regs_struct { orig_rax: NO_CALL, rax: result.cast_unsigned(), ..registers }
}

fn from_user(from: &user_regs_struct, fpu: FpuState) -> Registers {
    let selector = |register: u64| {
        let [low, high, ..] = register.to_le_bytes();
        u16::from_le_bytes([low, high])
    };
    Registers {
        general: [
            from.rax, from.rbx, from.rcx, from.rdx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8, from.r9,
            from.r10, from.r11, from.r12, from.r13, from.r14, from.r15,
        ],
        rip: from.rip,
        rflags: from.eflags,
        selectors: [from.cs, from.ss, from.ds, from.es, from.fs, from.gs].map(selector),
        fs_base: from.fs_base,
        gs_base: from.gs_base,
        fpu,
    }
}

fn change(registers: &mut user_regs_struct, wanted: &Registers) {
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15] = wanted.general;
    // If the debugger moves rip, the kernel must not restart an interrupted system call there.
    let orig_rax = if registers.rip == wanted.rip { registers.orig_rax } else { NO_CALL };
    let Registers { rip, rflags: eflags, fs_base, gs_base, .. } = *wanted;
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

/// Converts 32-bit words into the first `N` of their bytes.
fn bytes<const N: usize>(words: &[u32]) -> [u8; N] {
    let mut all = words.iter().flat_map(|word| word.to_le_bytes());
    array::from_fn(|_| all.next().unwrap_or(0))
}

/// Converts bytes into 32-bit words; missing bytes are 0.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    array::from_fn(|word| u32::from_le_bytes(array::from_fn(|index| byte(word * 4 + index))))
}

fn from_fpregs(from: &user_fpregs_struct) -> FpuState {
    let (st, _) = from.st_space.as_chunks::<4>();
    let (xmm, _) = from.xmm_space.as_chunks::<4>();
    let [ftw, _] = from.ftw.to_le_bytes();
    FpuState {
        st: array::from_fn(|number| st.get(number).map_or([0; 10], |words| bytes(words))),
        fcw: from.cwd,
        fsw: from.swd,
        ftw,
        fop: from.fop,
        fip: from.rip,
        fdp: from.rdp,
        xmm: array::from_fn(|number| xmm.get(number).map_or(0, |words| u128::from_le_bytes(bytes(words)))),
        mxcsr: from.mxcsr,
    }
}

fn change_fpregs(fpregs: &mut user_fpregs_struct, from: &FpuState) {
    (fpregs.cwd, fpregs.swd, fpregs.ftw) = (from.fcw, from.fsw, from.ftw.into());
    (fpregs.fop, fpregs.rip, fpregs.rdp, fpregs.mxcsr) = (from.fop, from.fip, from.fdp, from.mxcsr);
    let (st, _) = fpregs.st_space.as_chunks_mut::<4>();
    for (to, from) in st.iter_mut().zip(&from.st) {
        *to = words(from);
    }
    let (xmm, _) = fpregs.xmm_space.as_chunks_mut::<4>();
    for (to, from) in xmm.iter_mut().zip(&from.xmm) {
        *to = words(&from.to_le_bytes());
    }
}
