//! The figures as people read them.

use serde_json::{Value, json};

use super::aims;
use super::figures::{Figures, Row};
use super::system::System;
use super::topic::Table;

/// What is compared with what, and under which title.
const RATIOS: [Ratio; 3] = [
    Ratio { ours: System::Qemu, theirs: System::Linux, title: "QEMU:Linux" },
    Ratio { ours: System::Qemu, theirs: System::LinuxPlain, title: "QEMU:no TSO" },
    Ratio { ours: System::Uhyve, theirs: System::Veth, title: "uhyve:veth" },
];

/// One of our systems beside one of Linux's.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    ours: System,
    theirs: System,
    title: &'static str,
}

impl Ratio {
    /// How many times better ours is.
    fn of(self, row: &Row) -> Option<f64> {
        let (ours, theirs) = (row.median(self.ours)?, row.median(self.theirs)?);
        Some(if row.table.grows() { ours / theirs } else { theirs / ours })
    }

    /// There is something that it is to be.
    fn has_aims(self) -> bool {
        self.theirs != System::LinuxPlain
    }

    /// What it is to be at least.
    fn aim(self, row: &Row) -> Option<f64> {
        match self.theirs {
            System::Linux => aims::qemu(row.table, &row.name),
            System::Veth => aims::process(row.table),
            _ => None,
        }
    }
}

/// Prints every table that has something in it.
pub(super) fn print(figures: &Figures, systems: &[System]) {
    for table in Table::ALL {
        let mut rows = figures.rows(table).peekable();
        if rows.peek().is_some() {
            println!("{}", header(table, systems));
            rows.for_each(|row| println!("{}", line(row, systems)));
            println!();
        }
    }
    for failure in figures.failures() {
        println!("not measured: {failure}");
    }
}

/// The ratios of a row, and what each is to be at least.
pub(super) fn ratios_of(row: &Row) -> Value {
    let ratios = RATIOS.into_iter().filter_map(|ratio| {
        let figures = json!({ "ratio": ratio.of(row)?, "aim": ratio.aim(row) });
        Some((ratio.title.to_owned(), figures))
    });
    Value::Object(ratios.collect())
}

/// The ratios that these systems have.
fn ratios(systems: &[System]) -> impl Iterator<Item = Ratio> {
    let has = |system| systems.contains(&system);
    RATIOS.into_iter().filter(move |ratio| has(ratio.ours) && has(ratio.theirs))
}

fn header(table: Table, systems: &[System]) -> String {
    let mut line = format!("{:<20}", table.to_string());
    systems.iter().for_each(|system| line.push_str(&format!(" {system:>8}")));
    for ratio in ratios(systems) {
        let aim = if ratio.has_aims() { format!(" {:>6}", "aim") } else { String::new() };
        line.push_str(&format!(" {:>11}{aim}", ratio.title));
    }
    line
}

fn line(row: &Row, systems: &[System]) -> String {
    let mut line = format!("{:<20}", row.name);
    for &system in systems {
        let figure = row.median(system).map_or_else(|| "-".to_owned(), |figure| format!("{figure:.1}"));
        line.push_str(&format!(" {figure:>8}"));
    }
    ratios(systems).for_each(|ratio| line.push_str(&compared(ratio, row)));
    line.trim_end().to_owned()
}

/// A ratio and its aim, with a mark if that is missed.
fn compared(ratio: Ratio, row: &Row) -> String {
    let (reached, aim) = (ratio.of(row), ratio.aim(row));
    // As printed: two figures that differ by less are the same.
    let is_missed = reached.zip(aim).is_some_and(|(reached, aim)| (reached * 100.0).round() < aim * 100.0);
    let mark = if is_missed { "!" } else { "" };
    let reached = reached.map_or_else(|| "-".to_owned(), |reached| format!("{reached:.2}"));
    let aim = aim.map(|aim| format!("{mark}{aim:.2}")).unwrap_or_default();
    let aim = if ratio.has_aims() { format!(" {aim:>6}") } else { String::new() };
    format!(" {reached:>11}{aim}")
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::system::System;
    use super::super::topic::Table;
    use super::{header, line};

    #[test]
    fn ratios_say_how_much_better() {
        let mut figures = Figures::default();
        for table in [Table::Latency, Table::Rates] {
            figures.add(table, "connections", System::Qemu, 50.0);
            figures.add(table, "connections", System::Linux, 100.0);
        }
        let systems = [System::Qemu, System::Linux, System::Veth];
        assert!(header(Table::Rates, &systems).ends_with("veth  QEMU:Linux    aim"));
        let lines = [Table::Latency, Table::Rates].map(|table| {
            let row = figures.rows(table).next().unwrap();
            line(row, &systems)
        });
        assert!(lines[0].ends_with("    50.0    100.0        -        2.00"), "{}", lines[0]);
        assert!(lines[1].ends_with(" 0.50  !1.55"), "{}", lines[1]);
    }
}
