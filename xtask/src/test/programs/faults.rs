//! Programs that fail, and what std promises.

use anyhow::{Result, ensure};

use super::Ring;
use crate::test::guests::FAULTS;
use crate::test::report::Report;

/// Out of the table of faults: what does not depend on where a program runs is tested under QEMU alone.
const HERE: [&str; 12] = [
    "panic",
    "null",
    "divide",
    "illegal",
    "recursion",
    "abort",
    "write-code",
    "execute-data",
    "entropy",
    "time",
    "memory",
    "thread-null",
];

/// What takes minutes where KVM emulates.
const SLOW: &str = "memory";

pub(super) fn test(report: &mut Report, ring: &Ring) {
    for (fault, status, texts) in FAULTS.iter().filter(|(fault, ..)| HERE.contains(fault)) {
        if *fault == SLOW && !ring.uhyve.is_fast {
            report.skip(&format!("kvm: {fault}"), "it takes minutes on a KVM that emulates");
            continue;
        }
        report.check(&format!("kvm: {fault}"), || {
            ring.machine("faults", &[fault]).expect((*status).into(), texts).map(drop)
        });
    }
    report.check("kvm, CPUs 2: two faults", || two_faults(ring));
    report.check("kvm: output comes before the report of a panic", || order(ring));
    report.check("kvm: random numbers differ from run to run", || random(ring));
}

/// There is one report, however many threads are at fault.
fn two_faults(ring: &Ring) -> Result<()> {
    let machine = ring.machine("faults", &["two-faults"]).cpus(2);
    let text = machine.expect(139, &["thread 'worker' wrote to 0x0, which is not mapped"])?.text();
    let reports = text.matches("backtrace").count();
    ensure!(reports == 1, "there are {reports} reports\n{text}");
    Ok(())
}

/// With both streams in one pipe, what a program printed stands before what its death printed.
fn order(ring: &Ring) -> Result<()> {
    let machine = ring.machine("faults", &["two-faults"]).cpus(2);
    let machine = machine.options(&["--stats"]).started_by(&["sh", "-c", "exec \"$@\" 2>&1", "sh"]);
    let text = machine.expect(139, &[])?.text();
    let (report, stats) = (text.find("backtrace"), text.find("uhyve: ran for"));
    ensure!(report.is_some() && report < stats, "they stand in another order:\n{text}");
    Ok(())
}

fn random(ring: &Ring) -> Result<()> {
    let run = || ring.machine("faults", &["entropy"]).expect(0, &["random number:"]).map(|end| end.text());
    let (one, two) = (run()?, run()?);
    ensure!(one != two, "twice {one}");
    Ok(())
}
