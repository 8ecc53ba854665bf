//! `--loss`: flows over a path with random loss, delay, jitter, reordering, a rate and a queue, which a relay
//! emulates.

mod aims;
mod cells;
mod flows;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::Figures;
use super::plan::NetBenchPlan;
use super::relay::Impairments;
use super::server::RunningServer;
use super::server_program::ServerProgram;
use super::system::System;
pub(super) use aims::reached as aims_reached;
use cells::{Cell, Measure};

/// Time after a flow, besides a round trip, before the next one.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Time for resets of flows that ended at their limit, before the next cell.
const RESET_TIME: Duration = Duration::from_millis(300);

/// Upper bounds of the cells of a group and of the flows of a cell, for seeds that differ.
const MAX_CELLS: u64 = 1000;
const MAX_FLOWS: u64 = 1000;

/// Setting of Linux for the host's client: what it learned about a path is not used for the next flow.
const NO_METRICS: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";

/// Measures all cells, as many times as the selection says.
pub(super) fn all(plan: &NetBenchPlan, figures: &mut Figures) -> Result<()> {
    fs::write(NO_METRICS, "1").with_context(|| format!("cannot write {NO_METRICS}"))?;
    let selection = &plan.selection;
    for run in 1..=selection.runs {
        for (name, cells) in cells::groups(selection.is_long) {
            // A row has the same seeds, whatever other rows are selected.
            let mut cells: Vec<(u64, Cell)> = (0..).zip(cells).collect();
            cells.retain(|(_, cell)| selection.includes_row(&cell.row));
            for &system in selection.systems.iter().filter(|_| !cells.is_empty()) {
                eprintln!("net: run {run} of {}: {name}: {system}", selection.runs);
                let result = measure_group(plan, system, &cells, run, figures);
                result.unwrap_or_else(|error| figures.fail(format!("{system}, {name}: {error:#}")));
            }
        }
    }
    Ok(())
}

/// Starts a guest and measures cells, which have numbers. A failed one is recorded, and the others continue.
fn measure_group(
    plan: &NetBenchPlan,
    system: System,
    cells: &[(u64, Cell)],
    run: u32,
    figures: &mut Figures,
) -> Result<()> {
    let client = ServerProgram::NetBench.of(&plan.programs)?;
    let mut server = RunningServer::ready(plan, system, ServerProgram::NetBench)?;
    for (number, cell) in cells {
        server.check_running()?;
        let seed = (u64::from(run) * MAX_CELLS + number) * MAX_FLOWS;
        match measure_cell(client, &server, cell, seed) {
            Ok(results) => record(system, cell, &results, figures),
            Err(error) => figures.fail(format!("{system}, {}: {error:#}", cell.row)),
        }
    }
    Ok(())
}

/// Measures a cell. Each flow has a path with a seed of its own, so that the n-th frame of a flow has the
/// same fate in both systems.
fn measure_cell(
    client: &Path,
    server: &RunningServer,
    cell: &Cell,
    seed: u64,
) -> Result<Vec<flows::FlowResult>> {
    let relay = server.relay().context("there is no relay")?;
    let is_parallel = cell.measure == Measure::Fairness;
    let mut results = Vec::new();
    for flow in 0..if is_parallel { 1 } else { cell.flows } {
        relay.impair(cell.path, seed + flow);
        results.extend(flows::run(client, server, cell)?);
        // The last segments arrive.
        thread::sleep(Duration::from_nanos(2 * cell.path.delay_ns) + SETTLE_TIME);
    }
    let [to_guest, to_host] = relay.counts();
    eprintln!("net: {}, last flow, to guest: {to_guest}; to host: {to_host}", cell.row);
    // What a flow still sends that has ended at its limit is reset.
    relay.impair(Impairments::default(), 0);
    thread::sleep(RESET_TIME);
    Ok(results)
}

/// Adds what flows have reached to the figures.
fn record(system: System, cell: &Cell, results: &[flows::FlowResult], figures: &mut Figures) {
    for (suffix, figure) in flows::figures(cell.measure, results) {
        eprintln!("net: {system}, {}{suffix}: {figure:.3} {}", cell.row, cell.table);
        figures.add(cell.table, &format!("{}{suffix}", cell.row), system, figure);
    }
    let late = results.iter().filter(|flow| !flow.is_complete).count();
    if cell.measure == Measure::Completion && late > 0 {
        figures.fail(format!("{system}, {}: {late} flows took longer than {} ms", cell.row, cell.limit_ms));
    }
}
