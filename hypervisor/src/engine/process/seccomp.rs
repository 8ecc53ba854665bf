//! Seccomp filter of a guest's process: the system calls that its kernel may make ([`hermit_interface::process`]).

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::mem::offset_of;

use hermit_interface::boot_info::Region;
use hermit_interface::machine::LINES;
use hermit_interface::process::{ADDRESSES, CALL, FIRST_QUEUE_EVENTFD, INTERRUPT, MEMORY, queue_eventfd};
use libc::{
    SYS_close, SYS_futex, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_restart_syscall, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield, SYS_sendmsg, SYS_sigaltstack, SYS_tgkill,
    SYS_timer_settime, SYS_write, c_int, c_long,
};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, Ge, Le, Lt, MaskedEq};
use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::fds::CONTROL_FD;

/// Placeholder for the process's ID, which only the process itself knows. It is above all valid IDs.
const PID_PLACEHOLDER: u32 = 0x7fff_fff1;

/// BPF opcodes `BPF_LD | BPF_W | BPF_ABS`, `BPF_RET | BPF_K` and `BPF_JMP | BPF_JEQ | BPF_K` (linux/bpf_common.h).
const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const JUMP_IF_EQUAL: u16 = 0x15;

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
const X86_64: u32 = 0xc000_003e;

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

/// Who handles hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HypercallAction {
    /// The filter's listener (`SECCOMP_RET_USER_NOTIF`).
    Notify,
    /// The thread's tracer (`SECCOMP_RET_TRACE`). Without a tracer the call fails.
    Trace,
}

/// Message that carries the filter's listener to the hypervisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerMessage {
    /// Address of the message (`struct msghdr`).
    pub(super) address: u64,
    /// Descriptor of the listener.
    pub(super) listener: u32,
}

/// Where the kernel may map memory. This bounds the host's page tables for the guest: they are made for mapped pages
/// only, and changes of access and removals add none.
#[derive(Clone, Debug)]
pub(super) struct MappingLimits {
    /// Address ranges in which a mapping starts.
    pub(super) windows: [Region; 2],
    /// Maximum size of one mapping in bytes, and thus how far it reaches beyond its window.
    pub(super) max_size: u64,
}

impl Filter {
    /// Compiles the filter. It also allows what ends the bootstrap: the message, until the process closes
    /// [`CONTROL_FD`], and to close both descriptors. A call that it does not allow kills the process: the hypervisor
    /// has no say in that.
    pub(super) fn new(
        limits: &MappingLimits,
        message: Option<ListenerMessage>,
        action: HypercallAction,
    ) -> Result<Self, BackendError> {
        let kill = SeccompAction::KillProcess;
        let filter =
            SeccompFilter::new(rules(limits, message)?, kill, SeccompAction::Allow, ARCH.try_into()?)?;
        let rest: seccompiler::BpfProgram = filter.try_into()?;
        let program: Vec<_> = hypercalls(action).into_iter().chain(rest).collect();
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

/// Instructions that return the action for hypercalls, which `seccompiler` does not have, and continue behind their end
/// for all other calls.
fn hypercalls(action: HypercallAction) -> [seccompiler::sock_filter; 5] {
    let action = match action {
        HypercallAction::Notify => libc::SECCOMP_RET_USER_NOTIF,
        HypercallAction::Trace => libc::SECCOMP_RET_TRACE,
    };
    let call = u32::try_from(CALL).unwrap_or(u32::MAX);
    let architecture = offset_of!(libc::seccomp_data, arch);
    let number = offset_of!(libc::seccomp_data, nr);
    let load = |offset: usize| (LOAD, 0, 0, u32::try_from(offset).unwrap_or(u32::MAX));
    // Code, jump offsets if true and if false, constant.
    let instructions = [
        load(architecture),
        (JUMP_IF_EQUAL, 0, 3, X86_64),
        load(number),
        (JUMP_IF_EQUAL, 0, 1, call),
        (RETURN, 0, 0, action),
    ];
    instructions.map(|(code, jt, jf, k)| seccompiler::sock_filter { code, jt, jf, k })
}

/// Rules of the filter by system call: without conditions, or with alternatives of which one must hold.
fn rules(
    limits: &MappingLimits,
    message: Option<ListenerMessage>,
) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
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
    for (call, checks) in checks(limits, message) {
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
fn checks(limits: &MappingLimits, message: Option<ListenerMessage>) -> Vec<(c_long, Vec<ArgumentCondition>)> {
    let mut checks = vec![
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAIT))]),
        (SYS_futex, vec![(1, Dword, Eq, value(libc::FUTEX_WAKE))]),
        (SYS_tgkill, vec![(0, Dword, Eq, PID_PLACEHOLDER.into()), (2, Dword, Eq, INTERRUPT.into())]),
        (SYS_munmap, address(ADDRESSES)),
        (
            SYS_write,
            vec![
                (0, Dword, Ge, FIRST_QUEUE_EVENTFD.into()),
                (0, Dword, Lt, queue_eventfd(LINES, 0).into()),
                (2, Qword, Eq, 8),
            ],
        ),
    ];
    let close = |descriptor: u32| (SYS_close, vec![(0, Qword, Eq, descriptor.into())]);
    checks.push(close(CONTROL_FD));
    if let Some(ListenerMessage { address, listener }) = message {
        let arguments = vec![(0, Qword, Eq, CONTROL_FD.into()), (1, Qword, Eq, address), (2, Qword, Eq, 0)];
        checks.extend([(SYS_sendmsg, arguments), close(listener)]);
    }
    for (operator, protection) in PROTECTIONS {
        let access = vec![(2, Qword, operator, value(protection))];
        checks.push((SYS_mprotect, [address(ADDRESSES), access.clone()].concat()));
        for window in limits.windows {
            checks.push((SYS_mmap, [address(window), access.clone(), memory(limits.max_size)].concat()));
        }
    }
    checks
}

/// The first argument is in an address range.
fn address(range: Region) -> Vec<ArgumentCondition> {
    vec![(0, Qword, Ge, range.start), (0, Qword, Lt, range.end())]
}

/// A mapping of the VM's memory, of at most `max_size` bytes.
fn memory(max_size: u64) -> Vec<ArgumentCondition> {
    vec![
        (1, Qword, Le, max_size),
        (3, Qword, MaskedEq(!value(libc::MAP_POPULATE)), value(libc::MAP_SHARED | libc::MAP_FIXED)),
        (4, Qword, Eq, MEMORY.into()),
    ]
}

/// Converts a flag, which is never negative, into a value.
fn value(flags: c_int) -> u64 {
    flags.unsigned_abs().into()
}

#[cfg(test)]
mod tests;
