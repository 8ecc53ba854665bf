//! The aims: minimum ratios of a guest's figure to that of a Linux guest or of Linux itself.

use super::topic::Table;

/// Aims under QEMU by table and row, as ratios to the Linux guest. They were derived from the project's
/// absolute aims on one machine, divided by the figures of a Linux guest on that machine.
const QEMU: [(Table, &str, f64); 15] = [
    (Table::ToServer, "64 B", 1.47),
    (Table::ToServer, "1 KiB", 1.10),
    (Table::ToServer, "16 KiB", 1.09),
    (Table::ToServer, "64 KiB", 1.08),
    (Table::ToServer, "1 MiB", 1.05),
    (Table::FromServer, "64 B", 3.41),
    (Table::FromServer, "1 KiB", 5.13),
    (Table::FromServer, "16 KiB", 1.19),
    (Table::FromServer, "64 KiB", 1.07),
    (Table::FromServer, "1 MiB", 1.09),
    (Table::Latency, "1 B, p50", 2.08),
    (Table::Latency, "16 KiB, p50", 1.20),
    (Table::Rates, "connections", 1.55),
    (Table::Start, "first ping reply", 10.0),
    (Table::Start, "first HTTP byte", 10.0),
];

/// Returns the aim of a row under QEMU.
pub(super) fn qemu(table: Table, row: &str) -> Option<f64> {
    if matches!(table, Table::WebRates | Table::WebLatency) || table.is_of_lossy_path() {
        return Some(1.0);
    }
    QEMU.iter().find(|(its_table, name, _)| *its_table == table && *name == row).map(|(_, _, aim)| *aim)
}

/// Returns the aim on the process engine, as a ratio to Linux: all figures except the start should be at
/// least as good.
pub(super) fn process(table: Table) -> Option<f64> {
    (table != Table::Start).then_some(1.0)
}
