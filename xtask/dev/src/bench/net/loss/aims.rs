//! The aims of throughput on lossy paths: in each cell at least the throughput of the Linux guest, and in
//! half of the cells 1.2 times that throughput.

use serde_json::{Value, json};

use super::super::figures::Figures;
use super::super::table;
use super::super::topic::Table;

/// Returns the number of cells that reach each aim, as JSON. Returns `None` unless both systems were
/// measured.
pub(in crate::bench::net) fn reached(figures: &Figures) -> Option<Value> {
    let rows =
        [Table::LossyFromServer, Table::LossyToServer].into_iter().flat_map(|table| figures.rows(table));
    let ratios: Vec<f64> = rows.filter_map(table::guest_ratio).collect();
    let of = ratios.len();
    let cells = |ratio: f64| ratios.iter().filter(|&&reached| reached >= ratio).count();
    (of > 0).then(|| {
        json!({
            "at least 1.0 times": { "cells": cells(1.0), "of": of, "aim": of },
            "at least 1.2 times": { "cells": cells(1.2), "of": of, "aim": of.div_ceil(2) },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::figures::Figures;
    use super::super::super::system::System;
    use super::super::super::topic::Table;
    use super::reached;
    use serde_json::json;

    #[test]
    fn cells_are_counted_by_their_rounded_ratios() {
        let mut figures = Figures::default();
        assert_eq!(reached(&figures), None);
        for (name, ours) in [("a", 0.99), ("b", 0.996), ("c", 1.3)] {
            figures.add(Table::LossyToServer, name, System::Qemu, ours);
            figures.add(Table::LossyToServer, name, System::Linux, 1.0);
        }
        let expected = json!({
            "at least 1.0 times": { "cells": 2, "of": 3, "aim": 3 },
            "at least 1.2 times": { "cells": 1, "of": 3, "aim": 2 },
        });
        assert_eq!(reached(&figures), Some(expected));
    }
}
