//! Side channels of the CPU: speculation controls of Linux, and core scheduling.

use std::fs;

use rustix::io::Errno;
use rustix::process::{
    SpeculationFeature, SpeculationFeatureState as State, getpid, speculative_feature_state,
};
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie, create_core_scheduling_cookie};

use crate::protections;

/// Message about a host without core scheduling.
const NO_CORE_SCHEDULING: &str =
    "other programs may run on the other hyperthreads of the guest's CPUs (CONFIG_SCHED_CORE)";

/// Kinds of speculation that Linux lets a thread disable, and their names.
const FEATURES: [(SpeculationFeature, &str); 2] = [
    (SpeculationFeature::SpeculativeStoreBypass, "speculative store bypass"),
    (SpeculationFeature::IndirectBranchSpeculation, "indirect branch speculation"),
];

/// Kinds of speculation that a thread can disable on this host and that are not disabled: the guest's process does.
pub(crate) fn controllable() -> impl Iterator<Item = SpeculationFeature> {
    FEATURES.into_iter().map(|(feature, _)| feature).filter(|feature| is_controllable(state(*feature)))
}

fn state(feature: SpeculationFeature) -> Option<State> {
    speculative_feature_state(feature).ok().flatten()
}

/// Whether a thread can disable a kind of speculation in this state, and has not done so permanently.
fn is_controllable(state: Option<State>) -> bool {
    state.is_some_and(|state| state.contains(State::PRCTL) && !state.contains(State::FORCE_DISABLE))
}

/// What a guest as a process gets.
const fn describe(state: Option<State>) -> &'static str {
    match state {
        None => "unknown",
        Some(state) if state.is_empty() => "the CPU is not vulnerable",
        Some(state) if state.contains(State::PRCTL) => "disabled",
        Some(state) if state.contains(State::ENABLE) => "enabled: the host does not let a process disable it",
        Some(_) => "disabled by the host",
    }
}

/// Whether the host has hyperthreads (`/sys/devices/system/cpu/smt/active`); true if that is unknown, as in a jail.
pub(super) fn has_hyperthreads() -> bool {
    fs::read_to_string("/sys/devices/system/cpu/smt/active").map_or(true, |text| text.trim() != "0")
}

/// Gives the calling process, and those that it starts, a core-scheduling cookie of its own: no other process runs on
/// the other hyperthread of a CPU meanwhile. Says so where the host cannot do that, unless it has no hyperthreads.
pub(super) fn isolate_core(has_hyperthreads: bool) {
    let created = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup);
    if let Some(missing) = missing_core_scheduling(created, has_hyperthreads) {
        protections::warn(&format!("sandbox: {missing}"));
    }
}

/// What is missing of core scheduling on this host; `None` if it works, or is not needed.
pub(crate) fn core_scheduling_missing() -> Option<String> {
    let cookie = core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread);
    missing_core_scheduling(cookie.map(drop), has_hyperthreads())
}

/// What is missing by the result of a call. Without hyperthreads it fails with `ENODEV`, or with `EINVAL` where the kernel
/// lacks it.
fn missing_core_scheduling(result: rustix::io::Result<()>, has_hyperthreads: bool) -> Option<String> {
    match result {
        Ok(()) | Err(Errno::NODEV) => None,
        Err(error) => has_hyperthreads.then(|| format!("{NO_CORE_SCHEDULING}: {error}")),
    }
}

/// Describes the protections against side channels on this host: a line for each.
pub(crate) fn report() -> Vec<String> {
    let core = match core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(_) => "each guest has cores of its own",
        Err(_) if !has_hyperthreads() => "not needed: there are no hyperthreads",
        Err(Errno::NODEV) => "not needed: there are no hyperthreads",
        Err(_) => "not possible: the host's kernel lacks it (CONFIG_SCHED_CORE)",
    };
    let features = FEATURES.map(|(feature, name)| format!("{name}: {}", describe(state(feature))));
    features.into_iter().chain([format!("core scheduling: {core}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::{State, describe, is_controllable, missing_core_scheduling};
    use rustix::io::Errno;

    #[test]
    fn only_what_a_thread_can_still_disable_is_controllable() {
        for (state, is_possible, text) in [
            (None, false, "unknown"),
            (Some(State::empty()), false, "not vulnerable"),
            (Some(State::PRCTL | State::ENABLE), true, "disabled"),
            (Some(State::PRCTL | State::DISABLE), true, "disabled"),
            (Some(State::PRCTL | State::FORCE_DISABLE), false, "disabled"),
            (Some(State::ENABLE), false, "enabled"),
            (Some(State::DISABLE), false, "disabled by the host"),
        ] {
            assert_eq!(is_controllable(state), is_possible, "{state:?}");
            assert!(describe(state).contains(text), "{state:?}");
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
