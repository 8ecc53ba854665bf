//! The system calls that a guest's kernel may make ([`hermit_interface::process`]). All others are handed to this process.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use hermit_interface::machine::LINES;
use hermit_interface::process::{ADDRESSES, FIRST_KICK, INTERRUPT, MEMORY, kick};
use libc::{
    SYS_futex, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sched_yield, SYS_sendmsg, SYS_sigaltstack, SYS_tgkill, SYS_timer_settime,
    SYS_write, c_int, c_long,
};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, Ge, Lt, MaskedEq};
use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::script::CONTROL;

/// Where the filter leaves room for the process's identifier, which is known only in the process. No process has this one.
const ANY_PROCESS: u32 = 0x7fff_fff1;

/// The action that stands for handing a call over: to a tracer, or to a listener, for which `seccompiler` has no name.
const HAND_OVER: u32 = 0x1234;

/// Codes of instructions that return a constant, and that compare with one (linux/bpf_common.h).
const RETURN: u16 = 0x06;
const COMPARE: u16 = 0x15;

/// Kinds of access: nothing or reading; reading and writing; reading and executing.
const ACCESSES: [(SeccompCmpOp, c_int); 3] = [
    (MaskedEq(!1), libc::PROT_NONE),
    (Eq, libc::PROT_READ | libc::PROT_WRITE),
    (Eq, libc::PROT_READ | libc::PROT_EXEC),
];

/// What must be true of an argument.
type Check = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// A filter, as seccomp(2) takes it.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) bytes: Vec<u8>,
    /// How many instructions they are.
    pub(super) length: u16,
    /// Where in `bytes` the process's identifier must be put.
    pub(super) process: usize,
}

/// Who says what becomes of other system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Who has the filter's listener.
    Notify,
    /// Who traces the thread; without a tracer they fail.
    Trace,
}

/// A filter that lets the program send the message at this address besides, if there is one, until it closes [`CONTROL`].
pub(super) fn new(message: Option<u64>, others: Others) -> Result<Filter, BackendError> {
    let filter = SeccompFilter::new(
        rules(message)?,
        SeccompAction::Trace(HAND_OVER),
        SeccompAction::Allow,
        ARCH.try_into()?,
    )?;
    let mut program: seccompiler::BpfProgram = filter.try_into()?;
    let hand_over = u32::from(SeccompAction::Trace(HAND_OVER));
    for instruction in &mut program {
        if others == Others::Notify && (instruction.code, instruction.k) == (RETURN, hand_over) {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    let place = program.iter().position(|found| (found.code, found.k) == (COMPARE, ANY_PROCESS));
    let length = u16::try_from(program.len()).map_err(|_| BackendError::FilterTooLarge(program.len()))?;
    let bytes = program.iter().flat_map(|instruction| {
        let [low, high] = instruction.code.to_le_bytes();
        let [first, second, third, fourth] = instruction.k.to_le_bytes();
        [low, high, instruction.jt, instruction.jf, first, second, third, fourth]
    });
    let process = place.expect("the rule for tgkill compares with it") * 8 + 4;
    Ok(Filter { bytes: bytes.collect(), length, process })
}

fn rules(message: Option<u64>) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let always = [
        SYS_rt_sigaction,
        SYS_rt_sigprocmask,
        SYS_rt_sigreturn,
        SYS_sigaltstack,
        SYS_timer_settime,
        SYS_sched_yield,
        SYS_restart_syscall,
    ];
    let mut rules: BTreeMap<_, _> = always.into_iter().map(|call| (call, Vec::new())).collect();
    for (call, checks) in checks(message) {
        let conditions = checks.into_iter().map(|(argument, length, operator, value)| {
            SeccompCondition::new(argument, length, operator, value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
    }
    Ok(rules)
}

/// Calls with what their arguments must be; a call that is there several times may be made in each of the ways.
fn checks(message: Option<u64>) -> Vec<(c_long, Vec<Check>)> {
    let mut checks = vec![
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAIT))]),
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAKE))]),
        (SYS_tgkill, vec![(0, Dword, Eq, ANY_PROCESS.into()), (2, Dword, Eq, INTERRUPT.into())]),
        (SYS_munmap, address()),
        (
            SYS_write,
            vec![(0, Dword, Ge, FIRST_KICK.into()), (0, Dword, Lt, kick(LINES, 0).into()), (2, Qword, Eq, 8)],
        ),
    ];
    if let Some(message) = message {
        let arguments = vec![(0, Qword, Eq, CONTROL.into()), (1, Qword, Eq, message), (2, Qword, Eq, 0)];
        checks.push((SYS_sendmsg, arguments));
    }
    for (operator, access) in ACCESSES {
        let change = [address(), vec![(2, Qword, operator.clone(), value(access))]].concat();
        let map = vec![
            (3, Qword, MaskedEq(!value(libc::MAP_POPULATE)), value(libc::MAP_SHARED | libc::MAP_FIXED)),
            (4, Qword, Eq, MEMORY.into()),
        ];
        checks.push((SYS_mmap, [change.clone(), map].concat()));
        checks.push((SYS_mprotect, change));
    }
    checks
}

/// The first argument is an address that is the kernel's.
fn address() -> Vec<Check> {
    vec![(0, Qword, Ge, ADDRESSES.start), (0, Qword, Lt, ADDRESSES.end())]
}

/// None of the flags above is negative.
fn value(flags: c_int) -> u64 {
    flags.unsigned_abs().into()
}

#[cfg(test)]
mod tests;
