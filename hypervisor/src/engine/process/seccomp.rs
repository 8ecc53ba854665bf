//! Seccomp filter of a guest's process: the system calls that its kernel may make ([`hermit_interface::process`]).

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use hermit_interface::machine::LINES;
use hermit_interface::process::{ADDRESSES, FIRST_QUEUE_EVENTFD, INTERRUPT, MEMORY, queue_eventfd};
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

use super::fds::CONTROL_FD;

/// Placeholder for the process's ID, which only the process itself knows. It is above all valid IDs.
const PID_PLACEHOLDER: u32 = 0x7fff_fff1;

/// Data of `SECCOMP_RET_TRACE`. The same action stands for `SECCOMP_RET_USER_NOTIF`, which `seccompiler` does not have.
const TRACE_DATA: u32 = 0x1234;

/// BPF opcodes `BPF_RET | BPF_K` and `BPF_JMP | BPF_JEQ | BPF_K` (linux/bpf_common.h).
const RETURN: u16 = 0x06;
const JUMP_IF_EQUAL: u16 = 0x15;

/// Allowed protections: none or read; read and write; read and execute.
const PROTECTIONS: [(SeccompCmpOp, c_int); 3] = [
    (MaskedEq(!1), libc::PROT_NONE),
    (Eq, libc::PROT_READ | libc::PROT_WRITE),
    (Eq, libc::PROT_READ | libc::PROT_EXEC),
];

/// Condition on an argument: its index, the number of bits compared, the comparison, and the value.
type ArgumentCondition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// Filter in the format of seccomp(2).
#[derive(Debug)]
pub(super) struct Filter {
    /// BPF instructions.
    pub(super) bytes: Vec<u8>,
    /// Number of instructions.
    pub(super) length: u16,
    /// Offset in `bytes` at which the process's ID must be written.
    pub(super) pid_offset: usize,
}

/// Action for the system calls that the filter does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultAction {
    /// Report the call to the filter's listener (`SECCOMP_RET_USER_NOTIF`).
    Notify,
    /// Report the call to the thread's tracer (`SECCOMP_RET_TRACE`). Without a tracer the call fails.
    Trace,
}

impl Filter {
    /// Compiles the filter. It also allows to send the message at address `message` until the process closes
    /// [`CONTROL_FD`].
    pub(super) fn new(message: Option<u64>, default_action: DefaultAction) -> Result<Self, BackendError> {
        let filter = SeccompFilter::new(
            rules(message)?,
            SeccompAction::Trace(TRACE_DATA),
            SeccompAction::Allow,
            ARCH.try_into()?,
        )?;
        let mut program: seccompiler::BpfProgram = filter.try_into()?;
        let trace = u32::from(SeccompAction::Trace(TRACE_DATA));
        for instruction in &mut program {
            let is_default = (instruction.code, instruction.k) == (RETURN, trace);
            if is_default && default_action == DefaultAction::Notify {
                instruction.k = libc::SECCOMP_RET_USER_NOTIF;
            }
        }
        let is_pid_check =
            |found: &seccompiler::sock_filter| (found.code, found.k) == (JUMP_IF_EQUAL, PID_PLACEHOLDER);
        let index = program.iter().position(is_pid_check).expect("the rule for tgkill compares with it");
        let length = u16::try_from(program.len()).map_err(|_| BackendError::FilterTooLarge(program.len()))?;
        // `struct sock_filter`: code, jump offsets, constant.
        let bytes = program.iter().flat_map(|instruction| {
            let [low, high] = instruction.code.to_le_bytes();
            let [first, second, third, fourth] = instruction.k.to_le_bytes();
            [low, high, instruction.jt, instruction.jf, first, second, third, fourth]
        });
        Ok(Self { bytes: bytes.collect(), length, pid_offset: index * 8 + 4 })
    }
}

/// Rules of the filter by system call: without conditions, or with alternatives of which one must hold.
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

/// System calls with conditions on their arguments; a call that appears several times is allowed in each of these
/// forms.
fn checks(message: Option<u64>) -> Vec<(c_long, Vec<ArgumentCondition>)> {
    let mut checks = vec![
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAIT))]),
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAKE))]),
        (SYS_tgkill, vec![(0, Dword, Eq, PID_PLACEHOLDER.into()), (2, Dword, Eq, INTERRUPT.into())]),
        (SYS_munmap, address()),
        (
            SYS_write,
            vec![
                (0, Dword, Ge, FIRST_QUEUE_EVENTFD.into()),
                (0, Dword, Lt, queue_eventfd(LINES, 0).into()),
                (2, Qword, Eq, 8),
            ],
        ),
    ];
    if let Some(message) = message {
        let arguments = vec![(0, Qword, Eq, CONTROL_FD.into()), (1, Qword, Eq, message), (2, Qword, Eq, 0)];
        checks.push((SYS_sendmsg, arguments));
    }
    for (operator, protection) in PROTECTIONS {
        let change = [address(), vec![(2, Qword, operator.clone(), value(protection))]].concat();
        let map = vec![
            (3, Qword, MaskedEq(!value(libc::MAP_POPULATE)), value(libc::MAP_SHARED | libc::MAP_FIXED)),
            (4, Qword, Eq, MEMORY.into()),
        ];
        checks.push((SYS_mmap, [change.clone(), map].concat()));
        checks.push((SYS_mprotect, change));
    }
    checks
}

/// The first argument is in the address range of the kernel.
fn address() -> Vec<ArgumentCondition> {
    vec![(0, Qword, Ge, ADDRESSES.start), (0, Qword, Lt, ADDRESSES.end())]
}

/// Converts a flag, which is never negative, into a value.
fn value(flags: c_int) -> u64 {
    flags.unsigned_abs().into()
}

#[cfg(test)]
mod tests;
