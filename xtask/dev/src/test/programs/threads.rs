//! Threads on one and several CPUs: `kernel/tests/threads`.

use std::time::Duration;

use anyhow::Result;

use super::MUCH_MEMORY;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Numbers of CPUs.
const CPUS: &[u32] = &[1, 2, 4];

/// Numbers of CPUs under an emulator, without `--long`. Two CPUs are left out to save time: the checks in
/// [`POLICY_CHECKS`] run on two CPUs anyway.
const EMULATED_CPUS: &[u32] = &[1, 4];

/// Checks of the program `kernel/tests/threads`, each named by its command-line argument. The check `stress`
/// is separate, because it has a duration.
const CHECKS: [&str; 21] = [
    "allocate",
    "barrier",
    "busy",
    "clocks",
    "condvar",
    "exhaust",
    "many",
    "mpsc",
    "mutex",
    "names",
    "once",
    "parallel",
    "park",
    "rwlock",
    "scoped",
    "sleep",
    "sleep-together",
    "spawn-join",
    "stack",
    "sync-channel",
    "tls",
];

/// Checks that need much memory, because they have large stacks or many stacks. `exhaust` is not among them:
/// it fills the memory of a guest of any size, and keeps the default size.
const LARGE: [&str; 2] = ["many", "stack"];

/// On a slow host: pairs of a number of CPUs and the checks that run with it. They cover timers, IPIs,
/// wake-ups of idle CPUs, and thread-local storage.
const ON_SLOW_HOSTS: [(u32, &[&str]); 2] =
    [(1, &["busy", "sleep"]), (2, &["busy", "mutex", "sleep-together", "spawn-join", "tls"])];

/// On a slow host with `--long`: pairs as in [`ON_SLOW_HOSTS`].
const LONG_ON_SLOW_HOSTS: [(u32, &[&str]); 2] = [(1, LONG_CHECKS), (2, LONG_CHECKS)];

const LONG_CHECKS: &[&str] =
    &["busy", "condvar", "mpsc", "mutex", "park", "scoped", "sleep", "sleep-together", "spawn-join", "tls"];

/// Duration of `stress`, which runs many checks at the same time.
const STRESS: Duration = Duration::from_secs(2);

/// Duration of `stress` with `--long`.
const LONG_STRESS: Duration = Duration::from_secs(180);

/// Memory in MiB of the guest for the check that starts threads until a start fails. A few thousand threads
/// fit into this memory.
const EXHAUSTED_MEMORY: u64 = 64;

/// The check with the most threads, run with `--long`: number of threads that exist at the same time, memory
/// of the guest in MiB, and extension of the guest's time limit.
const HUNDRED_THOUSAND: (&str, u64, Duration) = ("100000", 4096, Duration::from_secs(1_200));

/// Extension of the time limit for the check that finds lost wake-ups by very many sleeps and yields.
const WAKE_UPS: Duration = Duration::from_secs(300);

/// The scheduling policies other than the default, each with the checks that run under it. Checks with busy
/// threads are left out for `fifo`: a busy thread may starve others there.
const POLICY_CHECKS: [(&str, &[&str]); 2] = [
    ("fifo", &["condvar", "mpsc", "mutex", "sleep-together", "spawn-join"]),
    ("round-robin", &["busy", "condvar", "mpsc", "mutex", "parallel", "sleep-together", "spawn-join"]),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    if platform.is_slow() {
        let selection = if long { LONG_ON_SLOW_HOSTS } else { ON_SLOW_HOSTS };
        selection.into_iter().for_each(|(cpus, names)| checks(tests, platform, cpus, names));
        return;
    }
    let numbers = if platform.is_native() || long { CPUS } else { EMULATED_CPUS };
    for &cpus in numbers {
        checks(tests, platform, cpus, &CHECKS);
        stress(tests, platform, cpus, long);
    }
    for cpus in [8, 64] {
        tests.add(format!("{platform}, CPUs {cpus}: threads spawn-join"), move || {
            succeeds(&guest(platform, cpus, &["spawn-join"]).memory(MUCH_MEMORY))
        });
    }
    exhaust_threads(tests, platform);
    policies(tests, platform);
    wake_ups(tests, platform, long);
    if long && !platform.is_native() {
        hundred_thousand(tests, platform);
    }
}

fn checks<'a>(
    tests: &mut Tests<'a>,
    platform: &'a TestPlatform<'_>,
    cpus: u32,
    checks: &'static [&'static str],
) {
    for &check in checks {
        tests.add(format!("{platform}, CPUs {cpus}: threads {check}"), move || {
            succeeds(&guest(platform, cpus, &[check]))
        });
    }
}

fn stress<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, cpus: u32, long: bool) {
    let time = if long { LONG_STRESS } else { STRESS };
    tests.add(format!("{platform}, CPUs {cpus}: threads stress for {time:?}"), move || {
        let seconds = time.as_secs().to_string();
        succeeds(&guest(platform, cpus, &["stress", "--seconds", &seconds]).more_time(time))
    });
}

fn policies<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    for (policy, checks) in POLICY_CHECKS {
        for check in checks {
            tests.add(format!("{platform}, CPUs 2, policy {policy}: threads {check}"), move || {
                succeeds(&platform.guest(policy, &[check, "--cpus-expected", "2"]).cpus(2))
            });
        }
    }
}

fn exhaust_threads<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}, CPUs 2, {EXHAUSTED_MEMORY} MiB: threads exhaust-threads"), move || {
        succeeds(&guest(platform, 2, &["exhaust-threads"]).memory(EXHAUSTED_MEMORY))
    });
}

/// Tests 100,000 threads at the same time. The caller leaves this test out where uhyve runs the guests: on
/// the process engine, Linux's default limit on the mappings of a process is too low for so many stacks.
fn hundred_thousand<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let (count, memory, time) = HUNDRED_THOUSAND;
    tests.add(format!("{platform}, CPUs 2, {memory} MiB: threads many {count}"), move || {
        succeeds(&guest(platform, 2, &["many", count]).memory(memory).more_time(time))
    });
}

/// Tests for lost wake-ups by many sleeps, and a hundred times as many yields.
fn wake_ups<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let sleeps = match (platform.is_native(), long) {
        (_, true) => 1_000_000,
        (true, false) => 100_000,
        (false, false) => return,
    };
    tests.add(
        format!("{platform}, CPUs 2: threads wake-ups, {sleeps} sleeps and 100 times as many yields"),
        move || succeeds(&guest(platform, 2, &["wake-ups", &sleeps.to_string()]).more_time(WAKE_UPS)),
    );
}

/// Returns a guest that runs the check that the first argument names.
fn guest<'a>(platform: &'a TestPlatform<'_>, cpus: u32, arguments: &[&str]) -> TestGuest<'a> {
    let guest =
        platform.guest("threads", &[arguments, &["--cpus-expected", &cpus.to_string()]].concat()).cpus(cpus);
    if arguments.first().is_some_and(|check| LARGE.contains(check)) {
        guest.memory(MUCH_MEMORY)
    } else {
        guest
    }
}

fn succeeds(guest: &TestGuest<'_>) -> Result<()> {
    guest.expect(0, &["ok"]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, LONG_ON_SLOW_HOSTS, ON_SLOW_HOSTS, POLICY_CHECKS};
    use crate::test::images::POLICIES;

    #[test]
    fn selections_for_slow_hosts_are_parts_of_the_longer_ones() {
        for ((cpus, checks), (long_cpus, long_checks)) in ON_SLOW_HOSTS.into_iter().zip(LONG_ON_SLOW_HOSTS) {
            assert_eq!(cpus, long_cpus);
            assert!(checks.iter().all(|check| long_checks.contains(check)));
            assert!(long_checks.iter().all(|check| CHECKS.contains(check)));
        }
    }

    #[test]
    fn every_policy_is_tested() {
        assert_eq!(POLICY_CHECKS.map(|(policy, _)| policy), POLICIES);
    }
}
