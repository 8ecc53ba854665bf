//! Measures requests to `examples/web`, which is axum on tokio.

use anyhow::Result;

use super::figures::Figures;
use super::http;
use super::plan::NetBenchPlan;
use super::server::RunningServer;
use super::server_program::ServerProgram;
use super::system::System;
use super::topic::Table;

/// Path of the request. Its handler takes a lock and answers with JSON.
const PATH: &str = "/health";

/// Numbers of persistent connections, with their names in rows.
const CONNECTIONS: [(u32, &str); 2] = [(16, "16 connections"), (1_000, "1,000 connections")];

/// Measures rate and latency for each number of connections. Starts a new server for each number.
pub(super) fn measure(plan: &NetBenchPlan, system: System, figures: &mut Figures) -> Result<()> {
    for (connections, name) in CONNECTIONS {
        let server = RunningServer::ready(plan, system, ServerProgram::Web)?;
        let load = http::run(&server, PATH, connections)?;
        if let Some(errors) = load.errors {
            figures.fail(format!("{system}, axum, {name}: {errors}"));
        }
        figures.add(Table::WebRates, name, system, load.rate);
        figures.add(Table::WebLatency, &format!("{name}, p50"), system, load.p50);
        figures.add(Table::WebLatency, &format!("{name}, p99"), system, load.p99);
    }
    Ok(())
}
