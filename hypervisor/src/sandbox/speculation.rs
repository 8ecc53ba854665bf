//! Side channels of the CPU: speculation controls of Linux, and core scheduling.

use rustix::io::Errno;
use rustix::process::{
    SpeculationFeature, SpeculationFeatureState as State, getpid, speculative_feature_state,
};
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie, create_core_scheduling_cookie};

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

/// Gives the calling process, and those that it starts, a core-scheduling cookie of its own: no other process runs on
/// the other hyperthread of a CPU meanwhile. It fails on hosts without hyperthreads, or without `CONFIG_SCHED_CORE`.
pub(super) fn isolate_core() {
    if let Err(error) = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup) {
        log::debug!("sandbox: there is no core scheduling here: {error}");
    }
}

/// Describes the protections against side channels on this host: a line for each.
pub(crate) fn report() -> Vec<String> {
    let core = match core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(_) => "each guest has cores of its own",
        Err(Errno::NODEV) => "not needed: there are no hyperthreads",
        Err(_) => "not possible: the host's kernel lacks it (CONFIG_SCHED_CORE)",
    };
    let features = FEATURES.map(|(feature, name)| format!("{name}: {}", describe(state(feature))));
    features.into_iter().chain([format!("core scheduling: {core}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::{State, describe, is_controllable};

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
}
