//! Seccomp filters of the roles.

use std::collections::BTreeMap;

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

/// Compiles the filter of a role. A call that it does not allow is not executed, and raises SIGSYS ([`denial`]).
fn compile(role: Role, rules: &Rules) -> BpfProgram {
    let mut allowed = BTreeMap::<u32, Vec<Vec<Condition>>>::new();
    for (number, lists) in calls::of(role, rules) {
        let Ok(number) = u32::try_from(number) else { continue };
        let conditions = lists.iter().map(|list| list.iter().map(|check| condition(*check, rules)).collect());
        allowed.entry(number).or_default().extend(conditions);
    }
    let allowed = allowed.into_iter().map(|(number, lists)| (number, CallRule::AllowIf(lists))).collect();
    bpf::compile(&allowed, SECCOMP_RET_TRAP)
}

fn condition(check: ArgumentCheck, rules: &Rules) -> Condition {
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
        // Without a tap no descriptor matches.
        ArgumentCheck::Tap(argument) => (argument, Operator::Equal, rules.tap.unwrap_or(-1).cast_unsigned()),
        ArgumentCheck::VcpuSignal(argument) => (argument, Operator::Equal, SIGRTMIN().cast_unsigned()),
    };
    (argument, Width::Lower32, operator, value.into())
}

#[cfg(test)]
mod tests;
