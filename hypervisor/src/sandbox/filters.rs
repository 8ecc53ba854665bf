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
mod tests {
    use super::{Role, Rules, calls, compile};
    use std::collections::{BTreeMap, BTreeSet};
    use syscalls::Sysno;

    const ROLES: [Role; 7] =
        [Role::Main, Role::Vcpu, Role::Devices, Role::Disk, Role::Network, Role::Output, Role::Gdb];

    /// Rules of three VMs: KVM with a debugger; the process engine; the process engine with a debugger, a tap and limits.
    fn all_rules() -> [Rules; 3] {
        let kinds = [(true, false, None), (false, true, None), (true, true, Some(9))];
        kinds.map(|(debugger, process, tap)| {
            let rate_limits = tap.is_some();
            Rules { debugger, process, tap, rate_limits, ..Rules::default() }
        })
    }

    /// Every role with each of the rules.
    fn all() -> impl Iterator<Item = (Role, Rules)> {
        ROLES.into_iter().flat_map(|role| all_rules().map(|rules| (role, rules)))
    }

    #[test]
    fn call_is_allowed_always_or_with_conditions_but_not_both() {
        for (role, rules) in all() {
            let mut known = BTreeMap::new();
            for (number, lists) in calls::of(role, &rules) {
                let is_conditional = *known.entry(number).or_insert(!lists.is_empty());
                assert_eq!(is_conditional, !lists.is_empty(), "{role}: {number}");
            }
        }
    }

    #[test]
    fn every_filter_has_50_to_330_instructions() {
        for (role, rules) in all() {
            let length = compile(role, &rules).unwrap().len();
            assert!((50..330).contains(&length), "{role}: {length} instructions");
        }
    }

    /// Names of the system calls of each role in the table of `docs/sandbox.md`; the role `all` has those of every
    /// role.
    fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let is_call: BTreeSet<_> = (0..1024).filter_map(Sysno::new).map(|call| call.name()).collect();
        let document = include_str!("../../../docs/sandbox.md");
        let table = document.split_once("| role |").unwrap().1.split("\n\n").next().unwrap();
        let (mut role, mut documented) = ("", BTreeMap::<_, BTreeSet<_>>::new());
        for row in table.lines().skip(2) {
            let columns: Vec<_> = row.split(" | ").collect();
            let name = columns[0].trim_matches(['|', ' ', '`']);
            role = if name.is_empty() { role } else { name };
            let quoted = columns[1].split('`').skip(1).step_by(2);
            let words = quoted.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
            documented.entry(role).or_default().extend(words.filter(|word| is_call.contains(word)));
        }
        documented
    }

    #[test]
    fn documented_calls_of_each_role_are_the_allowed_ones() {
        let documented = documented();
        for role in ROLES {
            let all_rules = all_rules();
            let allowed = all_rules.iter().flat_map(|rules| calls::of(role, rules));
            let allowed: BTreeSet<_> = allowed
                .map(|(number, _)| Sysno::new(usize::try_from(number).unwrap()).unwrap().name())
                .collect();
            let documented: BTreeSet<_> =
                documented["all"].union(&documented[role.name()]).copied().collect();
            assert_eq!(documented, allowed, "{role}");
        }
    }
}
