//! Throughput, latency and connection rates, measured by the client of `xtask/bench/net_bench`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::client::{self, RunResult};
use super::figures::Figures;
use super::server::RunningServer;
use super::system::System;
use super::topic::{Table, Topic};

/// Number of round trips for a latency.
const ROUNDS: &str = "5000";

/// Number of connections for a rate.
const CONNECTIONS: &str = "2000";

/// Time limit of the client for a topic.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The topics, with their names on the client's command line.
pub(super) const TOPICS: [(Topic, &str); 3] =
    [(Topic::Throughput, "throughput"), (Topic::Latency, "latency"), (Topic::Connections, "connections")];

/// Measures a topic.
pub(super) fn measure(
    client: &Path,
    server: &RunningServer,
    word: &str,
    system: System,
    figures: &mut Figures,
) -> Result<()> {
    let address = server.socket_address().to_string();
    let arguments = ["client", &address, "--seconds", "1", "--rounds", ROUNDS, "--count", CONNECTIONS, word];
    let RunResult { text, result } = client::run(Command::new(client).args(arguments), TIMEOUT)?;
    // The figures are added before the result is checked, so that a failure does not lose figures printed
    // before it.
    for line in text.lines() {
        for (table, name, figure) in rows(line).with_context(|| format!("cannot parse {line}"))? {
            figures.add(table, &name, system, figure);
        }
    }
    result
}

/// Parses a line of JSON. Returns its figures with their tables and rows.
fn rows(line: &str) -> Option<Vec<(Table, String, f64)>> {
    let line: Value = serde_json::from_str(line).ok()?;
    let number = |name: &str| line[name].as_f64();
    let size = || line["message"].as_u64().map(size);
    match line["test"].as_str()? {
        "throughput" => {
            let is_to_server = line["direction"].as_str()? == "to server";
            let table = if is_to_server { Table::ToServer } else { Table::FromServer };
            Some(vec![(table, size()?, number("megabytes_per_second")?)])
        }
        "latency" => Some(vec![
            (Table::Latency, format!("{}, p50", size()?), number("p50_us")?),
            (Table::Latency, format!("{}, p99", size()?), number("p99_us")?),
        ]),
        "connections" => Some(vec![(Table::Rates, "connections".to_owned(), number("per_second")?)]),
        _ => None,
    }
}

/// Formats a number of bytes with a unit.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::topic::Table;
    use super::rows;

    #[test]
    fn rows_are_parsed_from_lines() {
        let line = r#"{"test":"throughput","direction":"from server","message":16384,"bytes":1,"time_us":2.0,"megabytes_per_second":1.50}"#;
        assert_eq!(rows(line), Some(vec![(Table::FromServer, "16 KiB".to_owned(), 1.5)]));
        let line = r#"{"test":"latency","message":1,"rounds":5,"min_us":1.0,"p50_us":2.5,"p99_us":7.0,"max_us":9.0}"#;
        let expected =
            vec![(Table::Latency, "1 B, p50".to_owned(), 2.5), (Table::Latency, "1 B, p99".to_owned(), 7.0)];
        assert_eq!(rows(line), Some(expected));
        assert_eq!(rows("failed"), None);
        assert_eq!(rows("{}"), None);
    }
}
