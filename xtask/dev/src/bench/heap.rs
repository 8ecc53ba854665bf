//! The suite `heap`: scaling of the allocator with threads, and contention for its shared lock.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_machines::qemu::{End, Guest, Input};
use hermit_toolchain::setup;
use serde_json::{Value, json};

use super::example;
use xtask::program;

/// Time limit of a guest.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Numbers of threads and of CPUs.
const COUNTS: [u32; 3] = [1, 2, 4];

/// Figures that `xtask/bench/heap_scaling` prints, by name.
type Figures = BTreeMap<String, f64>;

/// Measures all figures, prints and returns them.
pub(super) fn main() -> Result<Value> {
    let figures = COUNTS.iter().map(|&count| measure(count)).collect::<Result<Vec<_>>>()?;
    println!("{:<44} {:>13} {:>13} {:>13}", "heap", "1 CPU", "2 CPUs", "4 CPUs");
    let mut all = serde_json::Map::new();
    for name in figures[0].keys() {
        let row = figures.iter().map(|figures| figures.get(name).copied()).collect::<Option<Vec<_>>>();
        let row = row.with_context(|| format!("a guest did not print {name:?}"))?;
        println!("{name:<44} {:>13} {:>13} {:>13}", row[0], row[1], row[2]);
        if name.contains("per millisecond") {
            println!(
                "{:<44} {:>13} {:>13.2} {:>13.2}",
                "    as a ratio",
                1,
                row[1] / row[0],
                row[2] / row[0]
            );
        }
        all.insert(name.clone(), json!({ "1": row[0], "2": row[1], "4": row[2] }));
    }
    Ok(Value::Object(all))
}

/// Measures a guest with `count` CPUs and threads.
fn measure(count: u32) -> Result<Figures> {
    let (loader, image) = (setup::loader()?, example("heap_scaling")?);
    let guest = Guest {
        cpus: count,
        memory: "512M".parse().map_err(anyhow::Error::msg)?,
        arguments: vec![count.to_string().into()],
        timeout: Some(TIMEOUT),
        ..Guest::new(loader, Some(image.clone()), program::name_of(&image))
    };
    let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
    let text = String::from_utf8_lossy(&output);
    ensure!(end == End::Exited(0), "heap_scaling ended with {end:?}:\n{text}");
    Ok(super::core::parse(&text))
}
