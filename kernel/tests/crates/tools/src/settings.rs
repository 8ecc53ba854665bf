//! Settings of a server, and a folder for their files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
pub struct Settings {
    pub name: String,
    pub port: u16,
    #[serde(default)]
    pub limits: BTreeMap<String, f64>,
}

/// A new folder for the files of a crate.
pub fn folder(name: &str) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("crates-{name}-{}", std::process::id()));
    fs::create_dir_all(&path)?;
    Ok(path)
}
