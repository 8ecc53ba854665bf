//! HTTP requests per second, by wrk.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::client::{self, RunResult};
use super::figures::Figures;
use super::server::RunningServer;
use super::system::System;
use super::topic::Table;

/// wrk's options: one thread, 16 persistent connections, three seconds.
const OPTIONS: [&str; 4] = ["-t1", "-c16", "-d3s", "--latency"];

/// Time limit of wrk.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Measures the rate of requests with wrk.
pub(super) fn measure(server: &RunningServer, system: System, figures: &mut Figures) -> Result<()> {
    let url = format!("http://{}/", server.socket_address());
    let RunResult { text, result } = client::run(Command::new("wrk").args(OPTIONS).arg(&url), TIMEOUT)?;
    result?;
    ensure!(!text.contains("Non-2xx"), "the server returned errors:\n{text}");
    let rate = rate(&text).with_context(|| format!("cannot parse wrk's output:\n{text}"))?;
    if let Some(errors) = text.lines().find(|line| line.contains("Socket errors")) {
        figures.fail(format!("{system}, HTTP:{errors}"));
    }
    figures.add(Table::Rates, "HTTP requests", system, rate);
    Ok(())
}

/// Parses the rate in wrk's output.
fn rate(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rate_is_parsed() {
        assert_eq!(rate("  3 requests in 1s\nRequests/sec:   1234.56\nTransfer/sec:  1MB\n"), Some(1234.56));
        assert_eq!(rate("unable to connect"), None);
    }
}
