//! Measures the rate and the latency of HTTP requests with wrk.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::client::{self, RunResult};
use super::figures::Figures;
use super::server::RunningServer;
use super::system::System;
use super::topic::Table;

/// Numbers of persistent connections for the rate of requests to httpd, with their rows.
const CONNECTIONS: [(u32, &str); 3] =
    [(16, "HTTP requests"), (1, "HTTP, 1 connection"), (64, "HTTP, 64 connections")];

/// Time limit of wrk.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Results of wrk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Load {
    /// Requests per second.
    pub(super) rate: f64,
    /// Median of the response times, in microseconds.
    pub(super) p50: f64,
    /// 99th percentile of the response times, in microseconds.
    pub(super) p99: f64,
    /// wrk's line about failed connections and late responses, if wrk printed one.
    pub(super) errors: Option<String>,
}

/// Measures the rate of requests to httpd for each number of connections.
pub(super) fn measure(server: &RunningServer, system: System, figures: &mut Figures) -> Result<()> {
    for (connections, name) in CONNECTIONS {
        let load = run(server, "/", connections)?;
        if let Some(errors) = load.errors {
            figures.fail(format!("{system}, {name}: {errors}"));
        }
        figures.add(Table::Rates, name, system, load.rate);
    }
    Ok(())
}

/// Requests a page for three seconds, in one thread and over persistent connections.
pub(super) fn run(server: &RunningServer, path: &str, connections: u32) -> Result<Load> {
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-d3s", "--latency", "--timeout", "10s"]).arg(format!("-c{connections}"));
    let url = format!("http://{}{path}", server.socket_address());
    let RunResult { text, result } = client::run(wrk.arg(url), TIMEOUT)?;
    result?;
    ensure!(!text.contains("Non-2xx"), "the server returned errors:\n{text}");
    load(&text).with_context(|| format!("cannot parse wrk's output:\n{text}"))
}

/// Parses wrk's output.
fn load(text: &str) -> Option<Load> {
    let of = |title: &str| text.lines().find_map(|line| line.trim().strip_prefix(title)).map(str::trim);
    Some(Load {
        rate: of("Requests/sec:")?.parse().ok()?,
        p50: microseconds(of("50%")?)?,
        p99: microseconds(of("99%")?)?,
        errors: of("Socket errors:").map(|errors| format!("socket errors: {errors}")),
    })
}

/// Parses a time with its unit.
fn microseconds(text: &str) -> Option<f64> {
    let number = |unit| text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    // "us" and "ms" end with "s", too. If the unit "s" is tried for them, the rest ends with a letter and is
    // not a number.
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)];
    units.into_iter().find_map(|(unit, factor)| Some(number(unit)? * factor))
}

#[cfg(test)]
mod tests {
    use super::{Load, load};

    /// Output of wrk 4.1.0.
    const OUTPUT: &str = "Running 3s test @ http://10.32.0.2:8080/health
  1 threads and 1000 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    18.02ms    3.01ms  55.01ms   91.40%
  Latency Distribution
     50%  974.00us
     75%   19.01ms
     90%   20.15ms
     99%    1.03s 
  53 requests in 3.00s, 7.12MB read
Requests/sec:   1234.56
Transfer/sec:      2.34MB
";

    #[test]
    fn rate_and_latency_are_parsed() {
        let expected = Load { rate: 1234.56, p50: 974.0, p99: 1.03e6, errors: None };
        assert_eq!(load(OUTPUT), Some(expected.clone()));
        let line = "  Socket errors: connect 0, read 7, write 0, timeout 2\nRequests/sec:";
        let errors = Some("socket errors: connect 0, read 7, write 0, timeout 2".to_owned());
        assert_eq!(load(&OUTPUT.replace("Requests/sec:", line)), Some(Load { errors, ..expected }));
        assert_eq!(load("unable to connect"), None);
    }
}
