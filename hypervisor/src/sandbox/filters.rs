//! Seccomp filters of the roles.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use vmm_sys_util::signal::SIGRTMIN;

use super::calls::{self, Check};
use super::{Role, Rules, SandboxError, denial};

/// Compiled filters of all roles.
#[derive(Debug)]
pub(super) struct Filters {
    main: BpfProgram,
    vcpu: BpfProgram,
    devices: BpfProgram,
    network: BpfProgram,
    gdb: BpfProgram,
}

impl Filters {
    pub(super) fn new(rules: &Rules) -> Result<Self, BackendError> {
        let compile = |role| compile(role, rules);
        Ok(Self {
            main: compile(Role::Main)?,
            vcpu: compile(Role::Vcpu)?,
            devices: compile(Role::Devices)?,
            network: compile(Role::Network)?,
            gdb: compile(Role::Gdb)?,
        })
    }

    /// Installs the filter of `role` for the calling thread.
    pub(super) fn enter(&self, role: Role) -> Result<(), SandboxError> {
        let filter = match role {
            Role::Main => &self.main,
            Role::Vcpu => &self.vcpu,
            Role::Devices => &self.devices,
            Role::Network => &self.network,
            Role::Gdb => &self.gdb,
        };
        denial::set_role(role);
        seccompiler::apply_filter(filter).map_err(|source| SandboxError::Filter { role, source })
    }
}

/// Compiles the filter of a role. A call that it does not allow is not executed, and raises SIGSYS ([`denial`]). A call of another
/// architecture, whose numbers differ, kills the process.
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

fn condition(check: Check, rules: &Rules) -> Result<SeccompCondition, BackendError> {
    let (argument, operator, value) = match check {
        Check::Is(argument, value) => (argument, SeccompCmpOp::Eq, value.cast_unsigned()),
        Check::Ptrace(request) => (0, SeccompCmpOp::Eq, request),
        Check::Request(argument, request) => (argument, SeccompCmpOp::Eq, request),
        Check::Within(argument, bits) => {
            (argument, SeccompCmpOp::MaskedEq((!bits).cast_unsigned().into()), 0)
        }
        Check::IsBut { argument, value, free } => {
            (argument, SeccompCmpOp::MaskedEq((!free).cast_unsigned().into()), value.cast_unsigned())
        }
        Check::OwnProcess(argument) => (argument, SeccompCmpOp::Eq, std::process::id()),
        // Without a tap no descriptor matches.
        Check::Tap(argument) => (argument, SeccompCmpOp::Eq, rules.tap.unwrap_or(-1).cast_unsigned()),
        Check::VcpuSignal(argument) => (argument, SeccompCmpOp::Eq, SIGRTMIN().cast_unsigned()),
    };
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
}

#[cfg(test)]
mod tests {
    use super::{Role, Rules, calls, compile};
    use std::collections::BTreeMap;

    const ROLES: [Role; 5] = [Role::Main, Role::Vcpu, Role::Devices, Role::Network, Role::Gdb];

    /// Every role with the rules of three VMs: KVM with a debugger; the process engine; the process engine with a debugger and a tap.
    fn all() -> impl Iterator<Item = (Role, Rules)> {
        ROLES.into_iter().flat_map(|role| {
            let kinds = [(true, false, None), (false, true, None), (true, true, Some(9))];
            kinds.map(|(debugger, process, tap)| (role, Rules { debugger, process, tap, ..Rules::default() }))
        })
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
    fn every_filter_has_50_to_310_instructions() {
        for (role, rules) in all() {
            let length = compile(role, &rules).unwrap().len();
            assert!((50..310).contains(&length), "{role}: {length} instructions");
        }
    }
}
