//! Suites as pictures: two bars for each operation, on a logarithmic axis.

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
    title: &'static str,
    /// Label of the bars of Linux.
    linux: &'static str,
}

/// All pictures.
pub(super) const PICTURES: [Picture; 3] = [
    Picture {
        file: "docs/figures/core.svg",
        suite: "core",
        title: "instructions per operation (logarithmic)",
        linux: "Linux guest",
    },
    Picture {
        file: "docs/figures/fs.svg",
        suite: "fs",
        title: "files in memory: instructions per operation (logarithmic)",
        linux: "Linux guest",
    },
    Picture {
        file: "docs/figures/fs-process.svg",
        suite: "fs, process",
        title: "files in memory, in a process: nanoseconds per operation (logarithmic)",
        linux: "Linux, tmpfs",
    },
];

/// Systems by their keys in the record, with their colours, from the upper bar down.
const SYSTEMS: [(&str, RGBColor); 2] = [("ours", RGBColor(214, 39, 40)), ("linux", RGBColor(31, 119, 180))];

/// Height of a bar; the rows are 1 apart.
const BAR: f64 = 0.38;

/// Figure that is a number of threads, not of instructions.
const NOT_INSTRUCTIONS: &str = "threads alive at once";

/// Draws a picture; `None` if the suite is not recorded.
pub(super) fn draw(picture: &Picture, record: &FigureRecord) -> Result<Option<String>> {
    let Some(Value::Object(figures)) = record.figures(picture.suite) else { return Ok(None) };
    let of = |row: &Value, key: &str| row.get(key).and_then(Value::as_f64).filter(|figure| *figure > 0.0);
    let mut rows: Vec<(&String, &Value)> =
        figures.iter().filter(|(name, _)| *name != NOT_INSTRUCTIONS).collect();
    // The most instructions on Linux at the top.
    let linux = |row: &Value| of(row, "linux").or_else(|| of(row, "ours")).unwrap_or_default();
    rows.sort_by(|(_, one), (_, other)| linux(one).total_cmp(&linux(other)));
    let positions: Vec<f64> = (0_u32..).zip(&rows).map(|(position, _)| f64::from(position)).collect();
    let top = positions.last().map_or(0.0, |last| last + 0.5);
    let max = rows.iter().flat_map(|(_, row)| SYSTEMS.map(|(key, _)| of(row, key).unwrap_or(1.0)));
    let max = max.fold(1.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder.caption(picture.title, FONT).margin(12).x_label_area_size(28).y_label_area_size(290);
        let mut chart = builder.build_cartesian_2d((1.0..max * 2.0).log_scale(), -0.5..top)?;
        let name = |position: &f64| {
            let row = positions.iter().position(|other| (position - other).abs() < 0.1);
            row.and_then(|row| rows.get(row)).map(|(name, _)| (*name).clone()).unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(rows.len() * 2)
            .y_label_formatter(&name)
            .x_label_formatter(&|figure| format!("{figure:.0}"))
            .label_style(FONT)
            .draw()?;
        let bars = SYSTEMS.into_iter().zip(["this kernel", picture.linux]).zip([0.0, -BAR]);
        for (((key, color), label), offset) in bars {
            let bars = positions.iter().zip(&rows).filter_map(|(position, (_, row))| {
                let corner = (of(row, key)?, position + offset + BAR);
                Some(Rectangle::new([(1.0, position + offset), corner], color.filled()))
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
            let figures = json!({
                "mpsc": { "ours": 1658.0, "linux": 11_207.0 },
                "mutex": { "ours": 11.0, "linux": 20.0 },
            });
            record.set(picture.suite, &figures, &Conditions::default());
            let svg = draw(picture, &record).unwrap().unwrap();
            for word in ["mpsc", "mutex", "this kernel", picture.linux] {
                assert!(svg.contains(word), "{word}: {svg}");
            }
            assert_eq!(draw(picture, &record).unwrap().unwrap(), svg);
        }
    }
}
