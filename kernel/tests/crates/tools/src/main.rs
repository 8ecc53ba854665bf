//! Crates for command lines, errors, logs, settings, templates and scripts.

mod argh;
mod clap;
mod configuration;
mod console;
mod errors;
mod inventory;
mod logs;
mod properties;
mod reports;
mod scripts;
mod spans;
mod sysinfo;
mod templates;

use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::{env, fs, io};

fn main() -> ExitCode {
    crate_uses::main(&[
        ("anyhow", errors::anyhow),
        ("argh", argh::run),
        ("askama", templates::askama),
        ("clap", clap::run),
        ("color-eyre", reports::color_eyre),
        ("config", configuration::config),
        ("console", console::run),
        ("dotenvy", configuration::dotenvy),
        ("env_logger", logs::env_logger),
        ("eyre", reports::eyre),
        ("figment", configuration::figment),
        ("handlebars", templates::handlebars),
        ("inventory", inventory::run),
        ("log", logs::log),
        ("log4rs", logs::log4rs),
        ("minijinja", templates::minijinja),
        ("proptest", properties::proptest),
        ("quickcheck", properties::quickcheck),
        ("rhai", scripts::rhai),
        ("sysinfo", sysinfo::run),
        ("tera", templates::tera),
        ("thiserror", errors::thiserror),
        ("tracing", spans::tracing),
        ("tracing-subscriber", spans::tracing_subscriber),
        ("wasmi", scripts::wasmi),
    ])
}

/// A new folder for the files of a crate.
fn folder(name: &str) -> io::Result<PathBuf> {
    let path = env::temp_dir().join(format!("crates-{name}-{}", process::id()));
    fs::create_dir_all(&path)?;
    Ok(path)
}
