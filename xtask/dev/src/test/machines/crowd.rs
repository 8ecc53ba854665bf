//! Many machines: at the same time, and one after the other.

use anyhow::{Context, Result};

use super::Ring;
use crate::test::schedule::Tests;

/// Machines at the same time.
const AT_ONCE: u8 = 100;

/// Machines one after the other.
const IN_A_ROW: u32 = 1_000;

pub(super) fn test<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>) {
    ring.add(tests, &format!("{AT_ONCE} machines at once"), move || at_once(ring));
    ring.add(tests, &format!("{IN_A_ROW} machines in a row"), move || {
        (0..IN_A_ROW).try_for_each(|number| {
            let outcome = ring.machine("hello_world", &[]).expect(0, &["Hello, world!"]);
            outcome.map(drop).with_context(|| format!("machine {number}"))
        })
    });
}

/// All are there before the first one ends, and each has its own memory and exit code.
fn at_once(ring: &Ring<'_>) -> Result<()> {
    let waiting =
        (0..AT_ONCE).map(|_| ring.machine("stdin", &[]).waits().start()).collect::<Result<Vec<_>>>()?;
    let codes = (0..AT_ONCE)
        .map(|number| ring.machine("hello_world", &["--exit-code", &number.to_string()]).start())
        .collect::<Result<Vec<_>>>()?;
    for (number, running) in (0..AT_ONCE).zip(codes) {
        let texts = ["Hello, world!", &format!("argument 2: {number}\n")];
        running.end()?.check(number.into(), &texts)?;
    }
    for running in waiting {
        running.has_printed(b"READY")?;
        running.signal("TERM")?;
        running.end()?.check(143, &[])?;
    }
    Ok(())
}
