//! Seccomp filters of the roles.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use libc::SECCOMP_RET_TRAP;
use rustix::thread::gettid;
use seccompiler::BpfProgram;
use vmm_sys_util::signal::SIGRTMIN;

use super::bpf::{self, CallRule, Condition, Operator, Width};
use super::calls::{self, ArgumentCheck};
use super::{Role, Rules, SandboxError, denial};

/// Compiles the filter of `role`, and installs it for the calling thread.
pub(super) fn enter(role: Role, rules: &Rules) -> Result<(), SandboxError> {
    let filter = compile(role, rules);
    denial::set_role(role);
    seccompiler::apply_filter(&filter).map_err(|source| SandboxError::Filter { role, source })
}

/// Compiles the filter of a role. A call that it does not allow is not executed, and raises SIGSYS
/// ([`denial`]).
fn compile(role: Role, rules: &Rules) -> BpfProgram {
    let mut allowed = BTreeMap::<u32, Vec<Vec<Condition>>>::new();
    for (number, lists) in calls::of(role, rules) {
        let Ok(number) = u32::try_from(number) else { continue };
        let conditions = lists.iter().flat_map(|list| expand(list, rules));
        allowed.entry(number).or_default().extend(conditions);
    }
    let allowed = allowed.into_iter().map(|(number, lists)| (number, CallRule::AllowIf(lists))).collect();
    bpf::compile(&allowed, SECCOMP_RET_TRAP)
}

/// Expands a list of checks into alternative lists of conditions: one for each combination of the checks'
/// alternatives.
fn expand(list: &[ArgumentCheck], rules: &Rules) -> Vec<Vec<Condition>> {
    let mut alternatives = vec![Vec::new()];
    for check in list {
        let choices = conditions(*check, rules);
        let with = |alternative: &Vec<Condition>| {
            choices.iter().map(|more| [alternative, more.as_slice()].concat()).collect::<Vec<_>>()
        };
        alternatives = alternatives.iter().flat_map(with).collect();
    }
    alternatives
}

/// Returns alternative lists of conditions for a check. The check holds if all conditions of one list hold.
fn conditions(check: ArgumentCheck, rules: &Rules) -> Vec<Vec<Condition>> {
    let masked = |free: i32| Operator::Masked((!free).cast_unsigned().into());
    let (argument, operator, value) = match check {
        ArgumentCheck::Is(argument, value) => (argument, Operator::Equal, value.cast_unsigned()),
        ArgumentCheck::Ptrace(request) => (0, Operator::Equal, request),
        ArgumentCheck::Request(argument, request) => (argument, Operator::Equal, request),
        ArgumentCheck::Within(argument, bits) => (argument, masked(bits), 0),
        ArgumentCheck::IsBut { argument, value, free } => (argument, masked(free), value.cast_unsigned()),
        ArgumentCheck::OwnProcess(argument) => (argument, Operator::Equal, std::process::id()),
        ArgumentCheck::OwnThread(argument) => {
            (argument, Operator::Equal, gettid().as_raw_pid().cast_unsigned())
        }
        // If there is no tap, or no memory file, the value is -1, which matches no descriptor.
        ArgumentCheck::Tap(argument) => (argument, Operator::Equal, rules.tap.unwrap_or(-1).cast_unsigned()),
        ArgumentCheck::Memory(argument) => {
            (argument, Operator::Equal, rules.memory.unwrap_or(-1).cast_unsigned())
        }
        ArgumentCheck::VcpuSignal(argument) => (argument, Operator::Equal, SIGRTMIN().cast_unsigned()),
        ArgumentCheck::Null(argument) => return vec![vec![(argument, Width::All64, Operator::Equal, 0)]],
        ArgumentCheck::OpenedLater(argument) => return others(argument, &rules.open_files),
    };
    vec![vec![(argument, Width::Lower32, operator, value.into())]]
}

/// Returns alternatives that hold for a descriptor that is not in `files`: one for each range of numbers
/// between them. `files` is sorted.
fn others(argument: u8, files: &[RawFd]) -> Vec<Vec<Condition>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for file in files.iter().map(|file| u64::from(file.cast_unsigned())) {
        if start < file {
            ranges.push((start, file - 1));
        }
        start = file + 1;
    }
    ranges.push((start, u32::MAX.into()));
    let is_within = |(start, end)| {
        let width = Width::Lower32;
        vec![(argument, width, Operator::AtLeast, start), (argument, width, Operator::AtMost, end)]
    };
    ranges.into_iter().map(is_within).collect()
}

#[cfg(test)]
mod tests;
