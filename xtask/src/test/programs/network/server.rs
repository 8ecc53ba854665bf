//! A server in a guest, from its beginning to its end.

use anyhow::{Context, Result};

use crate::test::host::{Guest, Started};
use crate::test::running::Outcome;

/// What every server of ours prints when it is ready.
const READY: &str = "listening on";

/// Runs a guest that serves. When it is ready the test begins; afterwards the guest is told to end, which must work, too.
pub(super) fn during(
    guest: &Guest<'_>,
    test: impl FnOnce() -> Result<()>,
    farewell: impl FnOnce() -> Result<()>,
) -> Result<Outcome> {
    from_power_on(guest, |started| started.has_printed(READY.as_bytes()).and_then(|()| test()), farewell)
}

/// As [`during`], with a test that begins as soon as the machine does.
pub(super) fn from_power_on(
    guest: &Guest<'_>,
    test: impl FnOnce(&Started) -> Result<()>,
    farewell: impl FnOnce() -> Result<()>,
) -> Result<Outcome> {
    let started = guest.start()?;
    let tested = test(&started);
    if let Err(error) = tested {
        let console = started.kill()?;
        return Err(error.context(console.to_string()));
    }
    // The answer may be lost with the machine, the exit code is not.
    let parted = farewell();
    let outcome = started.end().with_context(|| format!("the farewell: {parted:?}"))?;
    outcome.check(0, &[READY])?;
    Ok(outcome)
}
