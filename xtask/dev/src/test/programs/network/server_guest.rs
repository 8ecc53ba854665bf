//! Life cycle of a guest that runs a server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::test::child::Outcome;
use crate::test::platform::{Started, TestGuest};
use crate::test::report::note;

/// Text that every server in `examples` prints when it is ready.
pub(super) const READY: &str = "listening on";

/// Extension of the time limit of the guest.
const MORE_TIME: Duration = Duration::from_secs(60);

/// Maximum number of requests to end that are sent if the guest does not respond.
const MAX_EXIT_REQUESTS: usize = 3;

/// Time for a guest to end after a request to end whose response was lost.
const EXIT_TIME: Duration = Duration::from_secs(5);

/// Runs a server. Starts `test` when the server is ready. Afterwards `request_exit` requests the guest to
/// end, and the guest must end successfully.
pub(super) fn during(
    guest: &TestGuest<'_>,
    test: impl FnOnce() -> Result<()>,
    request_exit: impl FnMut() -> Result<()>,
) -> Result<Outcome> {
    from_power_on(guest, |started| started.has_printed(READY.as_bytes()).and_then(|()| test()), request_exit)
}

/// Runs a server as [`during`] does, but starts the test together with the machine.
pub(super) fn from_power_on(
    guest: &TestGuest<'_>,
    test: impl FnOnce(&Started) -> Result<()>,
    request_exit: impl FnMut() -> Result<()>,
) -> Result<Outcome> {
    let mut started = guest.clone().more_time(MORE_TIME).start()?;
    let tested = test(&started);
    if let Err(error) = tested {
        let state = started.state();
        let console = started.kill()?;
        return Err(error.context(format!("{console}\n{state}")));
    }
    // The machine may end before the response is transmitted; the exit code is never lost.
    let response = end(&mut started, request_exit)?;
    let outcome = started.end().with_context(|| format!("the request to end: {response:?}"))?;
    outcome.check(0, &[READY])?;
    Ok(outcome)
}

/// Requests a guest to end. Repeats the request if neither a response nor the end of the guest follows,
/// because the request or the response may be lost.
fn end(started: &mut Started, mut request_exit: impl FnMut() -> Result<()>) -> Result<Result<()>> {
    let mut response = request_exit();
    for _ in 1..MAX_EXIT_REQUESTS {
        let Err(error) = &response else { break };
        if ends_soon(started)? {
            break;
        }
        note(format!("the request to end is repeated: {error:#}"));
        response = request_exit();
    }
    Ok(response)
}

fn ends_soon(started: &mut Started) -> Result<bool> {
    let start = Instant::now();
    while !started.has_ended()? {
        if start.elapsed() > EXIT_TIME {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}
