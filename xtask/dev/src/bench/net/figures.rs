//! The figures of all runs, by table, row and system.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::system::System;
use super::topic::Table;

/// Figures by table, row and system, and failures. The rows are in the order of their first figures.
#[derive(Debug, Default)]
pub(super) struct Figures {
    rows: Vec<Row>,
    failures: Vec<String>,
}

/// A row of a table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) table: Table,
    pub(super) name: String,
    runs: BTreeMap<System, Vec<f64>>,
}

impl Row {
    /// Returns the median of a system's runs.
    pub(super) fn median(&self, system: System) -> Option<f64> {
        let mut runs = self.runs.get(&system)?.clone();
        runs.sort_by(f64::total_cmp);
        runs.get(runs.len() / 2).copied()
    }
}

impl Figures {
    /// Adds a figure of a run.
    pub(super) fn add(&mut self, table: Table, name: &str, system: System, figure: f64) {
        let place = self.rows.iter().position(|row| row.table == table && row.name == name);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row { table, name: name.to_owned(), runs: BTreeMap::new() });
            self.rows.len() - 1
        });
        if let Some(row) = self.rows.get_mut(place) {
            row.runs.entry(system).or_default().push(figure);
        }
    }

    /// Records a failed measurement and prints it.
    pub(super) fn fail(&mut self, message: String) {
        eprintln!("net: {message}");
        self.failures.push(message);
    }

    /// Returns the failed measurements.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Returns the rows of a table.
    pub(super) fn rows(&self, table: Table) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.table == table)
    }

    /// Returns all figures and their single runs as JSON. Each row also has the result of `ratios`.
    pub(super) fn to_json(&self, ratios: impl Fn(&Row) -> Value) -> Value {
        let mut tables = Map::new();
        for table in Table::ALL {
            let rows = self.rows(table).map(|row| (row.name.clone(), row.to_json(ratios(row))));
            tables.insert(table.to_string(), Value::Object(rows.collect()));
        }
        tables.insert("failures".to_owned(), json!(self.failures));
        Value::Object(tables)
    }
}

impl Row {
    fn to_json(&self, ratios: Value) -> Value {
        let systems = self.runs.iter().map(|(system, runs)| {
            (system.to_string(), json!({ "median": self.median(*system), "runs": runs }))
        });
        Value::Object(systems.chain([("ratios".to_owned(), ratios)]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::system::System;
    use super::super::topic::Table;
    use super::Figures;
    use serde_json::Value;

    #[test]
    fn figures_are_grouped_by_row() {
        let mut figures = Figures::default();
        for (name, figure) in [("b", 3.0), ("a", 1.0), ("b", 9.0), ("b", 4.0)] {
            figures.add(Table::Rates, name, System::Qemu, figure);
        }
        let names: Vec<_> = figures.rows(Table::Rates).map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        let row = figures.rows(Table::Rates).next().unwrap();
        assert_eq!((row.median(System::Qemu), row.median(System::Linux)), (Some(4.0), None));
        assert_eq!(figures.to_json(|_| Value::Null)["per second"]["b"]["QEMU"]["runs"][1], 9.0);
    }
}
