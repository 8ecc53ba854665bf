//! The measurements of one system in one run.

use anyhow::Result;

use super::figures::Figures;
use super::plan::NetBenchPlan;
use super::server::RunningServer;
use super::server_program::ServerProgram;
use super::system::System;
use super::topic::Topic;
use super::{http, idle, net_bench, start, web};

/// Measures all selected topics once. Records a failure and continues with the other measurements.
pub(super) fn all(plan: &NetBenchPlan, system: System, figures: &mut Figures) {
    if plan.selection.includes(Topic::Idle)
        && let Err(error) = idle::measure(plan, system, figures)
    {
        figures.fail(format!("{system}, idle: {error:#}"));
    }
    let topics = net_bench::TOPICS.into_iter().filter(|(topic, _)| plan.selection.includes(*topic));
    let words: Vec<&str> = topics.map(|(_, word)| word).collect();
    if !words.is_empty()
        && let Err(error) = with_net_bench(plan, system, &words, figures)
    {
        figures.fail(format!("{system}: {error:#}"));
    }
    if (plan.selection.includes(Topic::Http) || plan.selection.includes(Topic::Start))
        && let Err(error) = with_httpd(plan, system, figures)
    {
        figures.fail(format!("{system}, HTTP: {error:#}"));
    }
    if plan.selection.includes(Topic::Web)
        && let Err(error) = web::measure(plan, system, figures)
    {
        figures.fail(format!("{system}, axum: {error:#}"));
    }
}

fn with_net_bench(plan: &NetBenchPlan, system: System, words: &[&str], figures: &mut Figures) -> Result<()> {
    let client = ServerProgram::NetBench.of(&plan.programs)?;
    let server = RunningServer::ready(plan, system, ServerProgram::NetBench)?;
    for word in words {
        if let Err(error) = net_bench::measure(client, &server, word, system, figures) {
            figures.fail(format!("{system}, {word}: {error:#}; the server printed:\n{}", server.printed()));
        }
    }
    Ok(())
}

fn with_httpd(plan: &NetBenchPlan, system: System, figures: &mut Figures) -> Result<()> {
    let mut server = RunningServer::start(plan, system, ServerProgram::Httpd)?;
    start::measure(&mut server, system, plan.selection.includes(Topic::Start), figures)?;
    if plan.selection.includes(Topic::Http) {
        http::measure(&server, system, figures)?;
    }
    Ok(())
}
