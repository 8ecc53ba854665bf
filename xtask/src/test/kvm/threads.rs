//! Threads on one and two CPUs.

use super::Ring;
use crate::test::report::Report;

/// What `examples/threads` is told.
const CHECKS: [&str; 10] =
    ["busy", "condvar", "mpsc", "mutex", "park", "scoped", "sleep", "sleep-together", "spawn-join", "tls"];

pub(super) fn test(report: &mut Report, ring: &Ring) {
    for cpus in [1, 2] {
        for check in CHECKS {
            report.check(&format!("kvm, CPUs {cpus}: {check}"), || {
                let arguments = [check, "--cpus-expected", &cpus.to_string()];
                ring.machine("threads", &arguments).cpus(cpus).expect(0, &["ok"]).map(drop)
            });
        }
    }
}
