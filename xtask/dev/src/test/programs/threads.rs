//! Threads on one and several CPUs: `examples/threads`.

use std::time::Duration;

use anyhow::Result;

use super::MUCH_MEMORY;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Numbers of CPUs.
const CPUS: [u32; 3] = [1, 2, 4];

/// Checks of `examples/threads`, by argument; `stress` comes on top.
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

/// Checks with large stacks or many of them. `exhaust` exhausts the usual memory.
const LARGE: [&str; 2] = ["many", "stack"];

/// The checks out of these that also run on a slow host, on one and two CPUs.
const ON_SLOW_HOSTS: [&str; 10] =
    ["busy", "condvar", "mpsc", "mutex", "park", "scoped", "sleep", "sleep-together", "spawn-join", "tls"];

/// How long the checks of `stress` run at the same time.
const STRESS: Duration = Duration::from_secs(5);

/// The same with `--long`.
const LONG_STRESS: Duration = Duration::from_secs(180);

/// Memory in MiB of the check that starts threads until that fails: room for some thousands.
const EXHAUSTED_MEMORY: u64 = 64;

/// Number of threads that exist at the same time with `--long`, their memory in MiB, and what is added to the time limit.
const HUNDRED_THOUSAND: (&str, u64, Duration) = ("100000", 4096, Duration::from_secs(1_200));

/// Added to the time limit of a guest whose sleeps and yields are so many that a lost wake-up would show.
const WAKE_UPS: Duration = Duration::from_secs(300);

/// The other scheduling policies, and the checks that each passes. A busy thread may starve others with `fifo`.
const POLICY_CHECKS: [(&str, &[&str]); 2] = [
    ("fair", &["busy", "condvar", "mpsc", "mutex", "parallel", "sleep-together", "spawn-join"]),
    ("fifo", &["condvar", "mpsc", "mutex", "sleep-together", "spawn-join"]),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let slow = platform.is_slow();
    for cpus in CPUS.into_iter().filter(|cpus| *cpus <= 2 || !slow) {
        for check in CHECKS.into_iter().filter(|check| !slow || ON_SLOW_HOSTS.contains(check)) {
            tests.add(format!("{platform}, CPUs {cpus}: threads {check}"), move || {
                succeeds(&guest(platform, cpus, &[check]))
            });
        }
        if !slow {
            stress(tests, platform, cpus, long);
        }
    }
    if !slow {
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

/// Not in a process of Linux, whose usual limit on mappings is lower.
fn hundred_thousand<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let (count, memory, time) = HUNDRED_THOUSAND;
    tests.add(format!("{platform}, CPUs 2, {memory} MiB: threads many {count}"), move || {
        succeeds(&guest(platform, 2, &["many", count]).memory(memory).more_time(time))
    });
}

/// Many sleeps, and a hundred times as many yields.
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

/// A guest that runs the checks in the arguments.
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
    use super::POLICY_CHECKS;
    use crate::test::images::POLICIES;

    #[test]
    fn every_policy_is_tested() {
        assert_eq!(POLICY_CHECKS.map(|(policy, _)| policy), POLICIES);
    }
}
