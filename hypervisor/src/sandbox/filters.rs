//! Seccomp filters of the roles.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use vmm_sys_util::signal::SIGRTMIN;

use super::calls::{self, ArgumentCheck};
use super::{Role, Rules, SandboxError, denial};

/// Compiles the filter of `role`, and installs it for the calling thread.
pub(super) fn enter(role: Role, rules: &Rules) -> Result<(), SandboxError> {
    let filter = compile(role, rules)?;
    denial::set_role(role);
    seccompiler::apply_filter(&filter).map_err(|source| SandboxError::Filter { role, source })
}

/// Compiles the filter of a role. A call that it does not allow is not executed, and raises SIGSYS ([`denial`]). A call
/// of another architecture, whose numbers differ, kills the process.
fn compile(role: Role, rules: &Rules) -> Result<BpfProgram, BackendError> {
    let mut allowed = BTreeMap::<i64, Vec<SeccompRule>>::new();
    for (number, lists) in calls::of(role, rules) {
        let alternatives = allowed.entry(number).or_default();
        for list in lists {
            let conditions =
                list.iter().copied().map(|check| condition(check, rules)).collect::<Result<_, _>>()?;
            alternatives.push(SeccompRule::new(conditions)?);
        }
    }
    SeccompFilter::new(allowed, SeccompAction::Trap, SeccompAction::Allow, ARCH.try_into()?)?.try_into()
}

fn condition(check: ArgumentCheck, rules: &Rules) -> Result<SeccompCondition, BackendError> {
    let (argument, operator, value) = match check {
        ArgumentCheck::Is(argument, value) => (argument, SeccompCmpOp::Eq, value.cast_unsigned()),
        ArgumentCheck::Ptrace(request) => (0, SeccompCmpOp::Eq, request),
        ArgumentCheck::Request(argument, request) => (argument, SeccompCmpOp::Eq, request),
        ArgumentCheck::Within(argument, bits) => {
            (argument, SeccompCmpOp::MaskedEq((!bits).cast_unsigned().into()), 0)
        }
        ArgumentCheck::IsBut { argument, value, free } => {
            (argument, SeccompCmpOp::MaskedEq((!free).cast_unsigned().into()), value.cast_unsigned())
        }
        ArgumentCheck::OwnProcess(argument) => (argument, SeccompCmpOp::Eq, std::process::id()),
        // Without a tap no descriptor matches.
        ArgumentCheck::Tap(argument) => (argument, SeccompCmpOp::Eq, rules.tap.unwrap_or(-1).cast_unsigned()),
        ArgumentCheck::VcpuSignal(argument) => (argument, SeccompCmpOp::Eq, SIGRTMIN().cast_unsigned()),
    };
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
}

#[cfg(test)]
mod tests;
