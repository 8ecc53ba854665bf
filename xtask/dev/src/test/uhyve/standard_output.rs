//! Tests of uhyve's standard output: the order of lines, and closed descriptors.

use anyhow::{Result, ensure};

use super::Fixture;
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, "output comes before the report of a fault", move || order(fixture));
    fixture.add(tests, "standard output, closed", move || {
        let machine = fixture.command("hello_world", &["--exit-code", "3"]);
        machine.started_by(&["sh", "-c", "exec \"$@\" >&-", "sh"]).expect(3, &[]).map(drop)
    });
    fixture.add(tests, "standard output without a reader", move || {
        // The reader of the pipe ends before uhyve starts. The shell prints uhyve's exit code to standard
        // error.
        let script = "{ sleep 0.1; \"$@\"; echo \"code $?\" >&2; } | true";
        let machine = fixture.command("hello_world", &["--exit-code", "3"]);
        machine.started_by(&["sh", "-c", script, "sh"]).expect(0, &["code 3"]).map(drop)
    });
}

/// If both streams are the same pipe, the program's output comes before the report of the fault that ends the
/// program.
fn order(fixture: &Fixture<'_>) -> Result<()> {
    let machine = fixture.command("faults", &["two-faults"]).cpus(2);
    let machine = machine.options(&["--stats"]).started_by(&["sh", "-c", "exec \"$@\" 2>&1", "sh"]);
    let text = machine.expect(139, &[])?.text();
    let (report, stats) = (text.find("backtrace"), text.find("uhyve: ran for"));
    ensure!(report.is_some() && report < stats, "their order is wrong:\n{text}");
    Ok(())
}
