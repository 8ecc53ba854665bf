//! Draws suites as pictures, with two bars for each operation, on a logarithmic axis.

use anyhow::Result;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::drawing::IntoDrawingArea;
use plotters::element::Rectangle;
use plotters::prelude::{IntoLogRange, RGBColor, SVGBackend, WHITE};
use plotters::style::Color;
use serde_json::Value;

use super::record::FigureRecord;

/// Width and height of the picture in pixels.
const SIZE: (u32, u32) = (860, 460);

/// The font of all text, and its size.
const FONT: (&str, u32) = ("sans-serif", 14);

/// A suite as a picture.
#[derive(Debug)]
pub(super) struct Picture {
    /// The file, from the repository's root.
    pub(super) file: &'static str,
    /// The suite in the record.
    suite: &'static str,
    /// Object of the suite's figures that has the rows; empty if the figures are the rows themselves.
    part: &'static str,
    title: &'static str,
    /// Paths of the figures of this kernel and of Linux within a row. `/` separates the keys of a path.
    keys: [&'static str; 2],
    /// Value at the start of the axis, not above any figure.
    start: f64,
    /// Label of the bars for Linux.
    linux: &'static str,
}

/// All pictures.
pub(super) const PICTURES: [Picture; 5] = [
    Picture {
        file: "docs/figures/core.svg",
        suite: "core",
        part: "",
        title: "instructions per operation (logarithmic)",
        keys: SINGLE_FIGURES,
        start: 1.0,
        linux: "Linux guest",
    },
    Picture {
        file: "docs/figures/fs.svg",
        suite: "fs",
        part: "",
        title: "files in memory: instructions per operation (logarithmic)",
        keys: SINGLE_FIGURES,
        start: 1.0,
        linux: "Linux guest",
    },
    Picture {
        file: "docs/figures/fs-process.svg",
        suite: "fs, process",
        part: "",
        title: "files in memory, in a process: nanoseconds per operation (logarithmic)",
        keys: SINGLE_FIGURES,
        start: 1.0,
        linux: "Linux, tmpfs",
    },
    Picture {
        file: "docs/figures/net-loss-guest-to-host.svg",
        suite: "net, loss",
        part: "lossy path, guest to host (MB/s)",
        title: "lossy paths, guest to host: MB/s (logarithmic)",
        keys: MEDIANS,
        start: 0.01,
        linux: "Linux guest",
    },
    Picture {
        file: "docs/figures/net-loss-host-to-guest.svg",
        suite: "net, loss",
        part: "lossy path, host to guest (MB/s)",
        title: "lossy paths, host to guest: MB/s (logarithmic)",
        keys: MEDIANS,
        start: 0.01,
        linux: "Linux guest",
    },
];

/// Keys in the record of suites that measure once.
const SINGLE_FIGURES: [&str; 2] = ["ours", "linux"];

/// Keys in the record of suites with several runs.
const MEDIANS: [&str; 2] = ["QEMU/median", "Linux/median"];

/// Colours of this kernel and of Linux, from the upper bar down.
const COLORS: [RGBColor; 2] = [RGBColor(214, 39, 40), RGBColor(31, 119, 180)];

/// Height of a bar. The distance of two rows is 1.
const BAR: f64 = 0.38;

/// Name of a figure that is a number of threads. It is left out, because the axis shows instructions.
const NOT_INSTRUCTIONS: &str = "threads alive at once";

/// Draws a picture and returns it as SVG. Returns `None` if the record does not have the suite.
pub(super) fn draw(picture: &Picture, record: &FigureRecord) -> Result<Option<String>> {
    let Some(figures) = record.figures(picture.suite) else { return Ok(None) };
    let figures = if picture.part.is_empty() { Some(figures) } else { figures.get(picture.part) };
    let Some(Value::Object(figures)) = figures else { return Ok(None) };
    let [ours, linux] = picture.keys;
    let of = |row: &Value, keys: &str| {
        let figure = keys.split('/').try_fold(row, |value, key| value.get(key))?.as_f64();
        figure.filter(|figure| *figure > 0.0)
    };
    let mut rows: Vec<(&String, &Value)> =
        figures.iter().filter(|(name, _)| *name != NOT_INSTRUCTIONS).collect();
    // The row with the most instructions on Linux is at the top.
    let linux = |row: &Value| of(row, linux).or_else(|| of(row, ours)).unwrap_or_default();
    rows.sort_by(|(_, one), (_, other)| linux(one).total_cmp(&linux(other)));
    let positions: Vec<f64> = (0_u32..).zip(&rows).map(|(position, _)| f64::from(position)).collect();
    let top = positions.last().map_or(0.0, |last| last + 0.5);
    let max = rows.iter().flat_map(|(_, row)| picture.keys.map(|key| of(row, key).unwrap_or(1.0)));
    let max = max.fold(1.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder.caption(picture.title, FONT).margin(12).x_label_area_size(28).y_label_area_size(290);
        let mut chart = builder.build_cartesian_2d((picture.start..max * 2.0).log_scale(), -0.5..top)?;
        let name = |position: &f64| {
            let row = positions.iter().position(|other| (position - other).abs() < 0.1);
            row.and_then(|row| rows.get(row)).map(|(name, _)| (*name).clone()).unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(rows.len() * 2)
            .y_label_formatter(&name)
            .x_label_formatter(&|figure| figure.to_string())
            .label_style(FONT)
            .draw()?;
        let bars = picture.keys.into_iter().zip(COLORS).zip(["this kernel", picture.linux]).zip([0.0, -BAR]);
        for (((key, color), label), offset) in bars {
            let bars = positions.iter().zip(&rows).filter_map(|(position, (_, row))| {
                let corner = (of(row, key)?, position + offset + BAR);
                Some(Rectangle::new([(picture.start, position + offset), corner], color.filled()))
            });
            chart
                .draw_series(bars)?
                .label(label)
                .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 16, y + 4)], color.filled()));
        }
        let mut labels = chart.configure_series_labels();
        labels.position(SeriesLabelPosition::LowerRight).background_style(WHITE.mix(0.8));
        labels.label_font(FONT).draw()?;
        area.present()?;
    }
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Conditions, FigureRecord};
    use super::{PICTURES, draw};
    use serde_json::json;

    #[test]
    fn picture_names_each_operation() {
        for picture in &PICTURES {
            assert_eq!(draw(picture, &FigureRecord::default()).unwrap(), None);
            let mut record = FigureRecord::default();
            let row = |ours: f64, linux: f64| json!({ "ours": ours, "linux": linux, "QEMU": { "median": ours }, "Linux": { "median": linux } });
            let figures = json!({ "mpsc": row(1658.0, 11_207.0), "mutex": row(11.0, 20.0) });
            let part = json!({ picture.part: figures });
            let figures = if picture.part.is_empty() { figures } else { part };
            record.set(picture.suite, &figures, &Conditions::default());
            let svg = draw(picture, &record).unwrap().unwrap();
            for word in ["mpsc", "mutex", "this kernel", picture.linux] {
                assert!(svg.contains(word), "{word}: {svg}");
            }
            assert_eq!(draw(picture, &record).unwrap().unwrap(), svg);
        }
    }
}
