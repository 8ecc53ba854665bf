//! Prints the figures as tables, with ratios and aims.

use serde_json::{Value, json};

use super::aims;
use super::figures::{Figures, Row};
use super::system::System;
use super::topic::Table;

/// The ratios that are printed, with their titles.
const RATIOS: [Ratio; 4] = [
    Ratio { ours: System::Qemu, theirs: System::Linux, title: "QEMU:Linux" },
    Ratio { ours: System::Qemu, theirs: System::LinuxNoTso, title: "QEMU:no TSO" },
    Ratio { ours: System::Uhyve, theirs: System::Veth, title: "uhyve:veth" },
    Ratio { ours: System::UhyvePorts, theirs: System::Loopback, title: "-p:loopback" },
];

/// A ratio that is printed: of a system of this project to a system of Linux.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    ours: System,
    theirs: System,
    title: &'static str,
}

impl Ratio {
    /// Returns the ratio of the figures in a row. It is above 1 if this project's figure is better.
    fn of(self, row: &Row) -> Option<f64> {
        let (ours, theirs) = (row.median(self.ours)?, row.median(self.theirs)?);
        Some(if row.table.is_larger_better() { ours / theirs } else { theirs / ours })
    }

    /// Returns true if rows have aims for this ratio.
    fn has_aims(self) -> bool {
        matches!(self.theirs, System::Linux | System::Veth)
    }

    /// Returns the minimum ratio of a row, if it has an aim.
    fn aim(self, row: &Row) -> Option<f64> {
        match self.theirs {
            System::Linux => aims::qemu(row.table, &row.name),
            System::Veth => aims::process(row.table),
            _ => None,
        }
    }
}

/// Prints each table that has rows.
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
        println!("failed: {failure}");
    }
}

/// Returns the ratios of a row and their aims as JSON.
pub(super) fn ratios_of(row: &Row) -> Value {
    let ratios = RATIOS.into_iter().filter_map(|ratio| {
        let figures = json!({ "ratio": ratio.of(row)?, "aim": ratio.aim(row) });
        Some((ratio.title.to_owned(), figures))
    });
    Value::Object(ratios.collect())
}

/// Returns the ratio of this kernel's guest in QEMU to the Linux guest, rounded as it is printed.
pub(super) fn guest_ratio(row: &Row) -> Option<f64> {
    let [guests, ..] = RATIOS;
    guests.of(row).map(|ratio| (ratio * 100.0).round() / 100.0)
}

/// Returns the ratios between these systems.
fn ratios(systems: &[System]) -> impl Iterator<Item = Ratio> {
    let has = |system| systems.contains(&system);
    RATIOS.into_iter().filter(move |ratio| has(ratio.ours) && has(ratio.theirs))
}

/// Formats the heading of a table.
fn header(table: Table, systems: &[System]) -> String {
    let mut line = format!("{:<20}", table.to_string());
    systems.iter().for_each(|system| line.push_str(&format!(" {system:>8}")));
    for ratio in ratios(systems) {
        let aim = if ratio.has_aims() { format!(" {:>6}", "aim") } else { String::new() };
        line.push_str(&format!(" {:>11}{aim}", ratio.title));
    }
    line
}

/// Formats a row of a table.
fn line(row: &Row, systems: &[System]) -> String {
    let mut line = format!("{:<20}", row.name);
    for &system in systems {
        let figure = row.median(system).map_or_else(|| "-".to_owned(), printed);
        line.push_str(&format!(" {figure:>8}"));
    }
    ratios(systems).for_each(|ratio| line.push_str(&compared(ratio, row)));
    line.trim_end().to_owned()
}

/// Formats a figure.
fn printed(figure: f64) -> String {
    if figure < 1.0 { format!("{figure:.3}") } else { format!("{figure:.1}") }
}

/// Formats a ratio and its aim, with the mark `!` if the aim is missed.
fn compared(ratio: Ratio, row: &Row) -> String {
    let (reached, aim) = (ratio.of(row), ratio.aim(row));
    // Compares the ratio as it is printed, that is, rounded.
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
    fn ratios_above_1_are_better() {
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
