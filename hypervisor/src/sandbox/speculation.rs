//! Side channels of the CPU: speculation controls of Linux, and core scheduling.
//!
//! A guest may try to read memory of other processes through speculative execution. Two mechanisms of Linux
//! reduce that. Speculation controls (`PR_SET_SPECULATION_CTRL`) disable kinds of speculation in a process,
//! at a cost in speed. Core scheduling keeps other processes off the second hyperthread of a core while the
//! guest runs on the first one, because hyperthreads share caches and predictors. A host's CPU and kernel
//! determine which mechanisms are available: `uhyve --check` prints them.

use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{
    SpeculationFeature, SpeculationFeatureControl as Control, SpeculationFeatureState as State,
    control_speculative_feature, getpid, speculative_feature_state,
};
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie, create_core_scheduling_cookie};

use crate::config::Mitigations;
use crate::sandbox::protections;

/// Message about a host without core scheduling.
const NO_CORE_SCHEDULING: &str =
    "other programs may run on the other hyperthreads of the guest's CPUs (CONFIG_SCHED_CORE)";

/// Kinds of speculation that Linux lets a thread disable, and their names.
const FEATURES: [(SpeculationFeature, &str); 2] = [
    (SpeculationFeature::SpeculativeStoreBypass, "speculative store bypass"),
    (SpeculationFeature::IndirectBranchSpeculation, "indirect branch speculation"),
];

/// Process whose speculation is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The guest's process.
    Guest,
    /// uhyve itself.
    Hypervisor,
}

/// Returns true if the feature must be disabled in the target.
///
/// Speculative store bypass reads stale values of the address space in which it occurs. The guest's process
/// contains only the guest, so disabling the bypass there would protect no other process, and would slow down
/// loads that follow stores. So only `strict` disables it. In contrast, all processes on a CPU share the
/// predictors of indirect branches. If indirect branch speculation is disabled for the guest, Linux clears
/// the predictors (IBPB) when it switches between the guest and any other process, uhyve included. The other
/// hyperthread cannot train them then (STIBP).
fn is_disabled(feature: SpeculationFeature, mitigations: Mitigations, target: Target) -> bool {
    match mitigations {
        Mitigations::Strict => true,
        Mitigations::Auto => {
            target == Target::Guest && feature == SpeculationFeature::IndirectBranchSpeculation
        }
    }
}

/// Returns the kinds of speculation to disable in the target, among those that this host permits to disable.
pub(crate) fn to_disable(
    mitigations: Mitigations,
    target: Target,
) -> impl Iterator<Item = SpeculationFeature> {
    let features = FEATURES.into_iter().map(|(feature, _)| feature);
    features
        .filter(move |&feature| is_disabled(feature, mitigations, target) && is_controllable(state(feature)))
}

/// Disables the kinds of speculation that `mitigations` demands for uhyve: in the calling thread, and in the
/// threads and processes that it starts later.
pub(super) fn restrict_hypervisor(mitigations: Mitigations) -> io::Result<()> {
    let mut features = to_disable(mitigations, Target::Hypervisor);
    Ok(features.try_for_each(|feature| control_speculative_feature(feature, Control::FORCE_DISABLE))?)
}

fn state(feature: SpeculationFeature) -> Option<State> {
    speculative_feature_state(feature).ok().flatten()
}

/// Returns true if, in this state, a thread can disable the kind of speculation, and has not yet disabled it
/// permanently.
fn is_controllable(state: Option<State>) -> bool {
    state.is_some_and(|state| state.contains(State::PRCTL) && !state.contains(State::FORCE_DISABLE))
}

/// Describes the state of the feature in a guest's process, from the state in uhyve before it is confined.
fn describe(feature: SpeculationFeature, state: Option<State>) -> &'static str {
    match state {
        None => "unknown",
        Some(state) if state.is_empty() => "the CPU is not vulnerable",
        Some(state) if state.contains(State::PRCTL) && !state.contains(State::ENABLE) => {
            "disabled: inherited from the process that started uhyve"
        }
        Some(state) if state.contains(State::PRCTL) => {
            if is_disabled(feature, Mitigations::Auto, Target::Guest) {
                "disabled in a guest's process; in uhyve with --mitigations strict"
            } else {
                "enabled: it reads memory of its own process only; disabled with --mitigations strict"
            }
        }
        Some(state) if state.contains(State::ENABLE) => "enabled: the host does not let a process disable it",
        Some(_) => "disabled by the host",
    }
}

/// Returns true if the host has hyperthreads (`/sys/devices/system/cpu/smt/active`), or if this is unknown,
/// as in a jail.
pub(super) fn has_hyperthreads() -> bool {
    fs::read_to_string("/sys/devices/system/cpu/smt/active").map_or(true, |text| text.trim() != "0")
}

/// Gives the calling process, and the processes that it starts, a core-scheduling cookie of their own. While
/// one of them runs on a hyperthread, no other process runs on the core's other hyperthread. Prints a warning
/// if the host has hyperthreads but not core scheduling.
pub(super) fn isolate_core(has_hyperthreads: bool) {
    let created = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup);
    if let Some(missing) = missing_core_scheduling(created, has_hyperthreads) {
        protections::warn(&format!("sandbox: {missing}"));
    }
}

/// Returns the reason why core scheduling is missing on this host; `None` if it works or is not needed.
pub(crate) fn core_scheduling_missing() -> Option<String> {
    let cookie = core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread);
    missing_core_scheduling(cookie.map(drop), has_hyperthreads())
}

/// Converts the result of a core-scheduling call into a reason; `None` if it works or is not needed. Without
/// hyperthreads the call fails with `ENODEV`. If the kernel lacks core scheduling, it fails with `EINVAL`.
fn missing_core_scheduling(result: rustix::io::Result<()>, has_hyperthreads: bool) -> Option<String> {
    match result {
        Ok(()) | Err(Errno::NODEV) => None,
        Err(error) => has_hyperthreads.then(|| format!("{NO_CORE_SCHEDULING}: {error}")),
    }
}

/// Describes the protections against side channels on this host, one line for each.
pub(crate) fn report() -> Vec<String> {
    let core = match core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(_) => "each guest has cores of its own",
        Err(_) if !has_hyperthreads() => "not needed: there are no hyperthreads",
        Err(Errno::NODEV) => "not needed: there are no hyperthreads",
        Err(_) => "not possible: the host's kernel lacks it (CONFIG_SCHED_CORE)",
    };
    let features = FEATURES.map(|(feature, name)| format!("{name}: {}", describe(feature, state(feature))));
    features.into_iter().chain([format!("core scheduling: {core}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        SpeculationFeature as Feature, State, Target, describe, is_controllable, is_disabled,
        missing_core_scheduling, restrict_hypervisor,
    };
    use crate::config::Mitigations;
    use rustix::io::Errno;

    const STORE_BYPASS: Feature = Feature::SpeculativeStoreBypass;
    const BRANCHES: Feature = Feature::IndirectBranchSpeculation;

    #[test]
    fn auto_disables_in_the_guest_what_reads_other_processes() {
        for (feature, target, is_in_auto) in [
            (STORE_BYPASS, Target::Guest, false),
            (BRANCHES, Target::Guest, true),
            (STORE_BYPASS, Target::Hypervisor, false),
            (BRANCHES, Target::Hypervisor, false),
        ] {
            assert_eq!(
                is_disabled(feature, Mitigations::Auto, target),
                is_in_auto,
                "{feature:?}, {target:?}"
            );
            assert!(is_disabled(feature, Mitigations::Strict, target), "{feature:?}, {target:?}");
        }
    }

    #[test]
    fn only_what_a_thread_can_still_disable_is_controllable() {
        for (state, is_possible, [store_bypass, branches]) in [
            (None, false, ["unknown"; 2]),
            (Some(State::empty()), false, ["not vulnerable"; 2]),
            (
                Some(State::PRCTL | State::ENABLE),
                true,
                ["enabled: it reads", "disabled in a guest's process"],
            ),
            (Some(State::PRCTL | State::DISABLE), true, ["disabled: inherited"; 2]),
            (Some(State::PRCTL | State::FORCE_DISABLE), false, ["disabled: inherited"; 2]),
            (Some(State::ENABLE), false, ["enabled: the host"; 2]),
            (Some(State::DISABLE), false, ["disabled by the host"; 2]),
        ] {
            assert_eq!(is_controllable(state), is_possible, "{state:?}");
            assert!(describe(STORE_BYPASS, state).contains(store_bypass), "{state:?}");
            assert!(describe(BRANCHES, state).contains(branches), "{state:?}");
        }
    }

    /// Linux keeps the state for each thread, and each test runs in its own thread, so other tests are not
    /// affected.
    #[test]
    fn strict_restricts_the_calling_thread() {
        let states = || [STORE_BYPASS, BRANCHES].map(super::state);
        let before = states();
        restrict_hypervisor(Mitigations::Auto).unwrap();
        assert_eq!(states(), before);
        restrict_hypervisor(Mitigations::Strict).unwrap();
        for (before, after) in before.into_iter().zip(states()) {
            let expected =
                if is_controllable(before) { Some(State::PRCTL | State::FORCE_DISABLE) } else { before };
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn core_scheduling_is_missing_only_where_there_are_hyperthreads() {
        for (result, has_hyperthreads, is_missing) in [
            (Ok(()), true, false),
            (Err(Errno::NODEV), true, false),
            (Err(Errno::INVAL), true, true),
            (Err(Errno::INVAL), false, false),
        ] {
            assert_eq!(missing_core_scheduling(result, has_hyperthreads).is_some(), is_missing, "{result:?}");
        }
    }
}
