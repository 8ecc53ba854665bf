//! `cargo xtask figures`: the tables and pictures of figures in documents, generated from the record of
//! measurements.
//!
//! `cargo xtask bench --record` writes the record, `docs/figures.json`. The tables of crates are generated
//! from the list that the test ring `crates` tests. In a Markdown file, a table is between the lines `<!--
//! figures: NAME -->` and `<!-- /figures -->`; [`tables`] lists the names. `cargo xtask lint` fails if a
//! table in a document differs from the generated one.

mod markdown;
mod markers;
mod picture;
mod record;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hermit_toolchain::{process, workspace};

use crate::compatibility;
use crate::test::limits;

pub(crate) use record::{Conditions, FigureRecord};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Measure what the tests of the ring `qemu` limit, and record it, instead
    #[arg(long)]
    record_limits: bool,
}

/// Rewrites every file that is out of date, or records the limits.
pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.record_limits { limits::record() } else { write() }
}

/// Rewrites every file that is out of date.
pub(crate) fn write() -> Result<()> {
    for (file, text) in outdated()? {
        let path = workspace::root().join(&file);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("cannot write {file}"))?;
        eprintln!("figures: {file} is written");
    }
    Ok(())
}

/// Fails if a generated table or picture is out of date.
pub(crate) fn check() -> Result<()> {
    let files: Vec<String> = outdated()?.into_iter().map(|(file, _)| file).collect();
    if files.is_empty() {
        return Ok(());
    }
    bail!("figures differ from {}: `cargo xtask figures` mends {}", record::FILE, files.join(", "))
}

/// Returns the files that are out of date, by path, with their new contents.
fn outdated() -> Result<Vec<(String, String)>> {
    let record = FigureRecord::read()?;
    let mut generated = Vec::new();
    for file in documents()? {
        let text = fs::read_to_string(workspace::root().join(&file));
        let text = text.with_context(|| format!("cannot read {file}"))?;
        let new = markers::replace(&text, |name| match name {
            "crates" => Ok(compatibility::Crates::read()?.markdown()),
            _ => tables::markdown(name, &record),
        });
        generated.push((file.clone(), new.with_context(|| file.clone())?));
    }
    for picture in &picture::PICTURES {
        if let Some(svg) = picture::draw(picture, &record)? {
            generated.push((picture.file.to_owned(), svg));
        }
    }
    let is_outdated = |(file, text): &(String, String)| {
        fs::read_to_string(workspace::root().join(file)).ok().as_ref() != Some(text)
    };
    Ok(generated.into_iter().filter(is_outdated).collect())
}

/// Returns the Markdown files that git tracks and that exist in the working tree.
fn documents() -> Result<Vec<String>> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "*.md"]).current_dir(workspace::root());
    let files = process::output(&mut git)?;
    let exists = |file: &&str| workspace::root().join(file).is_file();
    Ok(files.lines().filter(exists).map(str::to_owned).collect())
}
