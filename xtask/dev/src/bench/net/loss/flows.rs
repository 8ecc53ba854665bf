//! Runs the flows of a cell with the client of `xtask/bench/net_bench`, and computes figures from their
//! results.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::client::{self, RunResult};
use super::super::server::RunningServer;
use super::cells::{Cell, Measure};

/// Time that the client may take in addition to the time limit of its flows.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FlowResult {
    pub(super) bytes: f64,
    pub(super) time_us: f64,
    pub(super) is_complete: bool,
}

/// Runs one flow of a cell. In a cell for fairness, runs all its flows at the same time.
pub(super) fn run(client: &Path, server: &RunningServer, cell: &Cell) -> Result<Vec<FlowResult>> {
    let mut command = Command::new(client);
    command.args(["client", &server.socket_address().to_string()]);
    let is_parallel = cell.measure == Measure::Fairness;
    let count = if is_parallel { cell.flows } else { 1 };
    for (option, value) in [("--count", count), ("--bytes", cell.bytes), ("--limit", cell.limit_ms)] {
        command.args([option, &value.to_string()]);
    }
    command.args(cell.is_to_guest().then_some("--to-server"));
    command.args(is_parallel.then_some("--parallel")).arg("flows");
    let limit = Duration::from_millis(cell.limit_ms) + CLIENT_TIMEOUT;
    let RunResult { text, result } = client::run(&mut command, limit)?;
    result?;
    text.lines().map(|line| parse(line).with_context(|| format!("cannot parse {line}"))).collect()
}

/// Parses a line of JSON.
fn parse(line: &str) -> Option<FlowResult> {
    let line: Value = serde_json::from_str(line).ok()?;
    Some(FlowResult {
        bytes: line["bytes"].as_f64()?,
        time_us: line["time_us"].as_f64()?,
        is_complete: line["complete"].as_bool()?,
    })
}

/// Returns the figures of flows, each with the end of its row's name.
pub(super) fn figures(measure: Measure, flows: &[FlowResult]) -> Vec<(&'static str, f64)> {
    match measure {
        Measure::Throughput => vec![("", throughput(flows))],
        Measure::Completion if flows.len() == 1 => vec![("", mean_time(flows))],
        Measure::Completion => vec![(", mean", mean_time(flows)), (", p95", time_of_95th(flows))],
        Measure::Fairness => vec![("", jains_index(flows))],
    }
}

/// Returns the throughput in megabytes per second.
fn throughput(flows: &[FlowResult]) -> f64 {
    let sum = |figure: fn(&FlowResult) -> f64| flows.iter().map(figure).sum::<f64>();
    sum(|flow| flow.bytes) / sum(|flow| flow.time_us).max(1.0)
}

/// Returns the mean time in milliseconds.
fn mean_time(flows: &[FlowResult]) -> f64 {
    flows.iter().map(|flow| flow.time_us).sum::<f64>() / count(flows) / 1e3
}

/// Returns the time in milliseconds within which 95 of 100 flows were complete.
fn time_of_95th(flows: &[FlowResult]) -> f64 {
    let mut times: Vec<f64> = flows.iter().map(|flow| flow.time_us / 1e3).collect();
    times.sort_by(f64::total_cmp);
    times.get((times.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns Jain's index of fairness: 1 if all flows transferred the same amount, and `1 / n` if one of `n`
/// flows transferred everything.
fn jains_index(flows: &[FlowResult]) -> f64 {
    let sum: f64 = flows.iter().map(|flow| flow.bytes).sum();
    let squares: f64 = flows.iter().map(|flow| flow.bytes * flow.bytes).sum();
    sum * sum / (count(flows) * squares).max(1.0)
}

fn count(flows: &[FlowResult]) -> f64 {
    u32::try_from(flows.len()).unwrap_or(u32::MAX).max(1).into()
}

#[cfg(test)]
mod tests {
    use super::super::cells::Measure;
    use super::{FlowResult, figures, parse};

    fn flow(bytes: f64, time_us: f64) -> FlowResult {
        FlowResult { bytes, time_us, is_complete: true }
    }

    #[test]
    fn flow_is_parsed_from_its_line() {
        let line = r#"{"test":"flow","direction":"to server","bytes":7,"time_us":2000.5,"complete":true}"#;
        assert_eq!(parse(line), Some(flow(7.0, 2000.5)));
        assert_eq!(parse("failed"), None);
    }

    #[test]
    fn figures_follow_from_flows() {
        assert_eq!(figures(Measure::Throughput, &[flow(6e6, 2e6)]), [("", 3.0)]);
        let flows: Vec<FlowResult> = (1..=40).map(|time| flow(1.0, f64::from(time) * 1e3)).collect();
        assert_eq!(figures(Measure::Completion, &flows), [(", mean", 20.5), (", p95", 38.0)]);
        assert_eq!(figures(Measure::Completion, &flows[..1]), [("", 1.0)]);
    }

    #[test]
    fn jains_index_is_1_for_equal_flows() {
        assert_eq!(figures(Measure::Fairness, &[flow(5.0, 1.0), flow(5.0, 1.0)]), [("", 1.0)]);
        assert_eq!(figures(Measure::Fairness, &[flow(5.0, 1.0), flow(0.0, 1.0)]), [("", 0.5)]);
        assert_eq!(figures(Measure::Fairness, &[flow(0.0, 1.0)]), [("", 0.0)]);
    }
}
