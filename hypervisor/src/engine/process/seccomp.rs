//! Seccomp filter of a guest's process: the system calls that its kernel may make
//! ([`hermit_interface::process`]).

use std::collections::BTreeMap;

use hermit_interface::boot_info::Region;
use hermit_interface::machine::LINES;
use hermit_interface::process::{ADDRESSES, CALL, FIRST_QUEUE_EVENTFD, INTERRUPT, MEMORY, queue_eventfd};
use libc::{
    SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF, SYS_close, SYS_futex, SYS_mmap,
    SYS_mprotect, SYS_munmap, SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sched_yield, SYS_sendmsg, SYS_sigaltstack, SYS_tgkill, SYS_timer_settime, SYS_write, c_int, c_long,
};

use super::fds::CONTROL_FD;
use crate::sandbox::bpf::Operator::{AtLeast, AtMost, Below, Equal, Masked};
use crate::sandbox::bpf::Width::{All64, Lower32};
use crate::sandbox::bpf::{self, CallRule, Condition, JUMP_IF_EQUAL, Operator};

/// Placeholder for the process's ID, which is not known when the filter is compiled. It is larger than any
/// valid ID.
const PID_PLACEHOLDER: u32 = 0x7fff_fff1;

/// Allowed protections: none or read; read and write; read and execute.
const PROTECTIONS: [(Operator, c_int); 3] = [
    (Masked(!1), libc::PROT_NONE),
    (Equal, libc::PROT_READ | libc::PROT_WRITE),
    (Equal, libc::PROT_READ | libc::PROT_EXEC),
];

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

/// Where the filter sends hypercalls.
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

/// Limits of the addresses at which the kernel may map memory. They bound the size of the host's page tables
/// for the guest, because Linux allocates page tables only for mapped pages. mprotect(2) and munmap(2) are
/// not limited, because they allocate no page tables.
#[derive(Clone, Debug)]
pub(super) struct MappingLimits {
    /// Address ranges in which each mapping must start.
    pub(super) windows: [Region; 2],
    /// Maximum size of a mapping in bytes. A mapping may extend this far beyond its window.
    pub(super) max_size: u64,
}

impl Filter {
    /// Compiles the filter. Because the bootstrap ends after the filter is installed, the filter also allows
    /// the last calls of the bootstrap: sending `message`, until the process closes [`CONTROL_FD`], and
    /// closing both descriptors. Any other call kills the process, and the hypervisor cannot prevent that.
    pub(super) fn new(
        limits: &MappingLimits,
        message: Option<ListenerMessage>,
        action: HypercallAction,
    ) -> Self {
        // The filter contains the process's ID as a constant, but the process does not exist yet. So the
        // filter is compiled with a placeholder, and `pid_offset` is where the process's ID replaces it.
        let program = bpf::compile(&rules(limits, message, action), SECCOMP_RET_KILL_PROCESS);
        let is_pid_check =
            |found: &seccompiler::sock_filter| (found.code, found.k) == (JUMP_IF_EQUAL, PID_PLACEHOLDER);
        let index = program.iter().position(is_pid_check).expect("the rule for tgkill compares with it");
        let length = u16::try_from(program.len()).expect("the filter has some hundred instructions");
        // `struct sock_filter`: code, jump offsets, constant.
        let bytes = program.iter().flat_map(|instruction| {
            let [low, high] = instruction.code.to_le_bytes();
            let [first, second, third, fourth] = instruction.k.to_le_bytes();
            [low, high, instruction.jt, instruction.jf, first, second, third, fourth]
        });
        Self { bytes: bytes.collect(), length, pid_offset: index * 8 + 4 }
    }
}

/// Returns the filter's rules, by system call.
fn rules(
    limits: &MappingLimits,
    message: Option<ListenerMessage>,
    action: HypercallAction,
) -> BTreeMap<u32, CallRule> {
    let always = [
        SYS_rt_sigaction,
        SYS_rt_sigprocmask,
        SYS_rt_sigreturn,
        SYS_sigaltstack,
        SYS_timer_settime,
        SYS_sched_yield,
        SYS_restart_syscall,
    ];
    let mut lists: BTreeMap<_, Vec<_>> = always.into_iter().map(|call| (call, Vec::new())).collect();
    for (call, conditions) in checks(limits, message) {
        lists.entry(call).or_default().push(conditions);
    }
    let number = |call: c_long| u32::try_from(call).expect("numbers of system calls are small");
    let rules = lists.into_iter().map(|(call, lists)| (number(call), CallRule::AllowIf(lists)));
    let hypercall = match action {
        HypercallAction::Notify => SECCOMP_RET_USER_NOTIF,
        HypercallAction::Trace => SECCOMP_RET_TRACE,
    };
    rules.chain([(number(CALL.cast_signed()), CallRule::Return(hypercall))]).collect()
}

/// Returns the allowed system calls and the conditions on their arguments. A call that appears more than once
/// is allowed if the conditions of one of its entries hold.
fn checks(limits: &MappingLimits, message: Option<ListenerMessage>) -> Vec<(c_long, Vec<Condition>)> {
    let mut checks = vec![
        (SYS_futex, vec![(1, Lower32, Equal, value(libc::FUTEX_WAIT))]),
        (SYS_futex, vec![(1, Lower32, Equal, value(libc::FUTEX_WAKE))]),
        (
            SYS_tgkill,
            vec![(0, Lower32, Equal, PID_PLACEHOLDER.into()), (2, Lower32, Equal, INTERRUPT.into())],
        ),
        (SYS_munmap, address(ADDRESSES)),
        (
            SYS_write,
            vec![
                (0, Lower32, AtLeast, FIRST_QUEUE_EVENTFD.into()),
                (0, Lower32, Below, queue_eventfd(LINES, 0).into()),
                (2, All64, Equal, 8),
            ],
        ),
    ];
    let close = |descriptor: u32| (SYS_close, vec![(0, All64, Equal, descriptor.into())]);
    checks.push(close(CONTROL_FD));
    if let Some(ListenerMessage { address, listener }) = message {
        let arguments =
            vec![(0, All64, Equal, CONTROL_FD.into()), (1, All64, Equal, address), (2, All64, Equal, 0)];
        checks.extend([(SYS_sendmsg, arguments), close(listener)]);
    }
    for (operator, protection) in PROTECTIONS {
        let access = vec![(2, All64, operator, value(protection))];
        checks.push((SYS_mprotect, [address(ADDRESSES), access.clone()].concat()));
        for window in limits.windows {
            checks.push((SYS_mmap, [address(window), access.clone(), memory(limits.max_size)].concat()));
        }
    }
    checks
}

/// Returns the conditions that the first argument is an address in `range`.
fn address(range: Region) -> Vec<Condition> {
    vec![(0, All64, AtLeast, range.start), (0, All64, Below, range.end())]
}

/// Returns the conditions that mmap(2) maps at most `max_size` bytes of the VM's memory.
fn memory(max_size: u64) -> Vec<Condition> {
    vec![
        (1, All64, AtMost, max_size),
        (3, All64, Masked(!value(libc::MAP_POPULATE)), value(libc::MAP_SHARED | libc::MAP_FIXED)),
        (4, All64, Equal, MEMORY.into()),
    ]
}

/// Converts a flag, which is never negative, into a value.
fn value(flags: c_int) -> u64 {
    flags.unsigned_abs().into()
}

#[cfg(test)]
mod tests;
