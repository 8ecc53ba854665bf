//! Many guests at the same time.

use anyhow::Result;

use super::Fixture;
use crate::test::schedule::Tests;

/// Number of guests that wait at the same time, and number of guests that end at the same time.
const AT_ONCE: u8 = 100;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, &format!("{AT_ONCE} guests at once"), move || at_once(fixture));
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
