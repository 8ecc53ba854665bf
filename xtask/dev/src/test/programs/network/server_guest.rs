//! A server in a guest, from its beginning to its end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::test::child::Outcome;
use crate::test::platform::{Guest, Started};
use crate::test::report::note;

/// What every server of ours prints when it is ready.
const READY: &str = "listening on";

/// How much longer than others a guest may take that somebody talks to.
const MORE_TIME: Duration = Duration::from_secs(60);

/// How often a guest is told to end that does not answer, and how long it then has to end all the same.
const FAREWELLS: usize = 3;
const SOON: Duration = Duration::from_secs(5);

/// Runs a guest that serves. When it is ready the test begins; afterwards the guest is told to end, which must work, too.
pub(super) fn during(
    guest: &Guest<'_>,
    test: impl FnOnce() -> Result<()>,
    farewell: impl FnMut() -> Result<()>,
) -> Result<Outcome> {
    from_power_on(guest, |started| started.has_printed(READY.as_bytes()).and_then(|()| test()), farewell)
}

/// As [`during`], with a test that begins as soon as the machine does.
pub(super) fn from_power_on(
    guest: &Guest<'_>,
    test: impl FnOnce(&Started) -> Result<()>,
    farewell: impl FnMut() -> Result<()>,
) -> Result<Outcome> {
    let mut started = guest.clone().more_time(MORE_TIME).start()?;
    let tested = test(&started);
    if let Err(error) = tested {
        let console = started.kill()?;
        return Err(error.context(console.to_string()));
    }
    // The answer may be lost with the machine, the exit code is not.
    let parted = part(&mut started, farewell)?;
    let outcome = started.end().with_context(|| format!("the farewell: {parted:?}"))?;
    outcome.check(0, &[READY])?;
    Ok(outcome)
}

/// Tells a guest to end, once more if neither an answer nor the end comes: on the way either word may be lost.
fn part(started: &mut Started, mut farewell: impl FnMut() -> Result<()>) -> Result<Result<()>> {
    let mut parted = farewell();
    for _ in 1..FAREWELLS {
        let Err(error) = &parted else { break };
        if ends_soon(started)? {
            break;
        }
        note(format!("the request to end is repeated: {error:#}"));
        parted = farewell();
    }
    Ok(parted)
}

fn ends_soon(started: &mut Started) -> Result<bool> {
    let start = Instant::now();
    while !started.has_ended()? {
        if start.elapsed() > SOON {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}
