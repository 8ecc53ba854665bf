//! `--loss`: measures flows over a path that a relay emulates, with random loss, delay, jitter, reordering, a
//! rate and a queue.

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

/// Pause after a flow before the next flow, in addition to a round trip.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Pause before the next cell, in which flows that ended at their time limit are reset.
const RESET_TIME: Duration = Duration::from_millis(300);

/// Upper bounds of the number of cells in a group and of flows in a cell. They make the seeds of all flows
/// differ.
const MAX_CELLS: u64 = 1000;
const MAX_FLOWS: u64 = 1000;

/// Setting of Linux for the host's client. If it is 1, metrics of a path that one flow has learned are not
/// used for the next flow.
const NO_METRICS: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";

/// Measures all cells. Repeats that for the number of runs in the selection.
pub(super) fn all(plan: &NetBenchPlan, figures: &mut Figures) -> Result<()> {
    fs::write(NO_METRICS, "1").with_context(|| format!("cannot write {NO_METRICS}"))?;
    let selection = &plan.selection;
    for run in 1..=selection.runs {
        for (name, cells) in cells::groups(selection.is_long) {
            // The cells are numbered before the selection, so that the seeds of a row do not depend on the
            // selected rows.
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

/// Starts a guest and measures numbered cells in it. If a cell fails, records the failure and continues with
/// the next cell.
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

/// Measures a cell. Each flow has a new path with its own seed, so that the n-th frame of a flow has the same
/// fate in both systems.
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
        // Waits until the last segments have arrived.
        thread::sleep(Duration::from_nanos(2 * cell.path.delay_ns) + SETTLE_TIME);
    }
    let [to_guest, to_host] = relay.counts();
    eprintln!("net: {}, last flow, to guest: {to_guest}; to host: {to_host}", cell.row);
    // A flow that ended at its time limit may still send. Without impairments, it is reset quickly.
    relay.impair(Impairments::default(), 0);
    thread::sleep(RESET_TIME);
    Ok(results)
}

/// Adds the results of flows to the figures.
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
