//! Many guests: at the same time, and one after the other.

use anyhow::{Context, Result};

use super::Fixture;
use crate::test::schedule::Tests;

/// Number of guests that wait and of guests that end at the same time.
const AT_ONCE: u8 = 100;

/// Number of guests one after the other: enough to run out of what each of them leaks, and with `--long` of rare races.
const IN_A_ROW: u32 = 200;
const LONG_IN_A_ROW: u32 = 1_000;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>, long: bool) {
    let in_a_row = if long { LONG_IN_A_ROW } else { IN_A_ROW };
    fixture.add(tests, &format!("{AT_ONCE} guests at once"), move || at_once(fixture));
    fixture.add(tests, &format!("{in_a_row} guests in a row"), move || {
        (0..in_a_row).try_for_each(|number| {
            let outcome = fixture.command("hello_world", &[]).expect(0, &["Hello, world!"]);
            outcome.map(drop).with_context(|| format!("guest {number}"))
        })
    });
}

/// All guests exist before the first one ends, and each has its own memory and exit code.
fn at_once(fixture: &Fixture<'_>) -> Result<()> {
    let waiting = (0..AT_ONCE).map(|_| fixture.command("stdin", &[]).waits().start());
    let waiting = waiting.collect::<Result<Vec<_>>>()?;
    let codes = (0..AT_ONCE)
        .map(|number| fixture.command("hello_world", &["--exit-code", &number.to_string()]).start())
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
