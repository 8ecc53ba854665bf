//! The record of measurements. For each suite, it has the latest figures, and when, where and how they were
//! measured.
//!
//! The record is a JSON file in the repository, so that documents and their figures change in one commit. It
//! has an object for each suite of `cargo xtask bench`. A run with `--record` replaces only the objects of
//! the suites that it measured; the others keep their figures and their [`Conditions`]. Figures of different
//! suites may therefore come from different commits or machines. The tables in documents print the conditions
//! below each table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use hermit_machines::qemu::QEMU;
use hermit_machines::uhyve::{Engine, Uhyve, has_kvm};
use hermit_toolchain::{Toolchain, process, setup, workspace};
use serde_json::{Map, Value, json};

/// The record's file, from the repository's root.
pub(super) const FILE: &str = "docs/figures.json";

/// The latest measurement of each suite, by the suite's name.
#[derive(Debug, Default)]
pub(crate) struct FigureRecord {
    suites: Map<String, Value>,
}

impl FigureRecord {
    /// Reads the record from its file. Returns an empty record if there is no file.
    pub(crate) fn read() -> Result<Self> {
        Self::read_from(&path())
    }

    fn read_from(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let suites =
            serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        Ok(Self { suites })
    }

    /// Sets the figures of a suite in the record's file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written.
    pub(crate) fn update(suite: &str, figures: &Value, conditions: &Conditions) -> Result<()> {
        let mut record = Self::read()?;
        record.set(suite, figures, conditions);
        record.write()
    }

    /// Replaces the figures of a suite. Keeps the older figures if the suite has measured nothing.
    pub(super) fn set(&mut self, suite: &str, figures: &Value, conditions: &Conditions) {
        if figures.is_null() {
            return;
        }
        let mut measurement = conditions.0.clone();
        measurement.insert("figures".to_owned(), figures.clone());
        self.suites.insert(suite.to_owned(), Value::Object(measurement));
    }

    /// Writes the record to its file.
    fn write(&self) -> Result<()> {
        self.write_to(&path())
    }

    fn write_to(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.suites)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the figures of a suite.
    pub(super) fn figures(&self, suite: &str) -> Option<&Value> {
        self.suites.get(suite)?.get("figures")
    }

    /// Returns a text that says when, where and how a suite was measured.
    pub(super) fn conditions(&self, suite: &str) -> Option<String> {
        let suite = self.suites.get(suite)?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (machine, versions) = (&suite["machine"], &suite["versions"]);
        Some(format!(
            "Measured {} at commit {} by `{}`: {}, {} CPUs, {} GiB, Linux {}, {}, load average {} at the start; \
             rustc {}, QEMU {}.",
            text(&suite["date"]),
            text(&suite["commit"]),
            text(&suite["command"]),
            text(&machine["cpu"]),
            text(&machine["cpus"]),
            text(&machine["memory_gib"]),
            text(&machine["kernel"]),
            text(&machine["kvm"]),
            text(&machine["load_average"]),
            text(&versions["rustc"]),
            text(&versions["qemu"]),
        ))
    }
}

fn path() -> PathBuf {
    workspace::root().join(FILE)
}

/// Date, commit, command, machine and versions of a measurement.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Map<String, Value>);

impl Conditions {
    /// Reads the present conditions. Callers call this function before the measurement, so that the load
    /// average does not include the measurement itself.
    pub(crate) fn detect() -> Result<Self> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let kvm = match Uhyve::check(setup::uhyve()?)? {
            uhyve if uhyve.works(Engine::Kvm) => "KVM on hardware",
            _ if has_kvm() => "KVM in software emulation",
            _ => "no KVM",
        };
        let memory = first_number(&read("/proc/meminfo")?, "MemTotal:").context("no MemTotal")?;
        let load = read("/proc/loadavg")?;
        let conditions = json!({
            "date": output("date", &["--utc", "+%F"])?,
            "commit": output("git", &["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"])?,
            "command": format!("cargo xtask {}", words.join(" ")),
            "machine": {
                "cpu": cpu_model(&read("/proc/cpuinfo")?).unwrap_or("unknown CPU"),
                "cpus": thread::available_parallelism()?.get(),
                // `memory` is in KiB. The result is rounded to GiB, because the kernel keeps a part of the
                // memory for itself.
                "memory_gib": (memory + (1 << 19)) >> 20,
                "kernel": read("/proc/sys/kernel/osrelease")?.trim(),
                "kvm": kvm,
                "load_average": load.split_whitespace().next().and_then(|load| load.parse::<f64>().ok()),
            },
            "versions": {
                "rustc": Toolchain::detect()?.release(),
                "qemu": qemu_version().unwrap_or_else(|| "not installed".to_owned()),
            },
        });
        match conditions {
            Value::Object(map) => Ok(Self(map)),
            _ => Ok(Self(Map::new())),
        }
    }
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace::root());
    Ok(process::output(&mut command)?.trim().to_owned())
}

/// Returns the number after a key of proc_meminfo(5).
fn first_number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// Returns the model of the first processor in proc_cpuinfo(5).
fn cpu_model(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

fn qemu_version() -> Option<String> {
    let text = output(QEMU, &["--version"]).ok()?;
    text.split_whitespace().skip_while(|word| *word != "version").nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Conditions, FigureRecord, cpu_model, first_number};
    use serde_json::{Map, Value, json};

    fn conditions(date: &str) -> Conditions {
        Conditions(Map::from_iter([("date".to_owned(), json!(date))]))
    }

    #[test]
    fn record_keeps_suites_that_did_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figures.json");
        let mut record = FigureRecord::read_from(&file).unwrap();
        record.set("boot", &json!({ "a": 1 }), &conditions("monday"));
        record.set("core", &json!({ "b": 2 }), &conditions("monday"));
        record.write_to(&file).unwrap();
        let mut record = FigureRecord::read_from(&file).unwrap();
        record.set("core", &json!({ "b": 3 }), &conditions("tuesday"));
        record.set("boot", &Value::Null, &conditions("tuesday"));
        record.write_to(&file).unwrap();
        let record = FigureRecord::read_from(&file).unwrap();
        assert_eq!(record.figures("boot"), Some(&json!({ "a": 1 })));
        assert_eq!(record.figures("core"), Some(&json!({ "b": 3 })));
        assert!(record.conditions("boot").unwrap().contains("monday"));
        assert!(record.conditions("core").unwrap().contains("tuesday"));
        assert_eq!(record.figures("heap"), None);
    }

    #[test]
    fn processor_and_memory_are_parsed() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n"), Some("A B"));
        assert_eq!(first_number("MemTotal:       24 kB\n", "MemTotal:"), Some(24));
    }
}
