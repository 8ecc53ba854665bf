//! The suite `core` as a picture: two bars for each operation, on a logarithmic axis.

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

/// Title of the picture.
const TITLE: &str = "instructions per operation (logarithmic)";

/// Systems by their keys in the record, with their labels and colours, from the upper bar down.
const SYSTEMS: [(&str, &str, RGBColor); 2] =
    [("ours", "this kernel", RGBColor(214, 39, 40)), ("linux", "Linux guest", RGBColor(31, 119, 180))];

/// Height of a bar; the rows are 1 apart.
const BAR: f64 = 0.38;

/// Figure that is a number of threads, not of instructions.
const NOT_INSTRUCTIONS: &str = "threads alive at once";

/// Draws the picture; `None` if the suite is not recorded.
pub(super) fn core(record: &FigureRecord) -> Result<Option<String>> {
    let Some(Value::Object(figures)) = record.figures("core") else { return Ok(None) };
    let of = |row: &Value, key: &str| row.get(key).and_then(Value::as_f64).filter(|figure| *figure > 0.0);
    let mut rows: Vec<(&String, &Value)> =
        figures.iter().filter(|(name, _)| *name != NOT_INSTRUCTIONS).collect();
    // The most instructions on Linux at the top.
    let linux = |row: &Value| of(row, "linux").or_else(|| of(row, "ours")).unwrap_or_default();
    rows.sort_by(|(_, one), (_, other)| linux(one).total_cmp(&linux(other)));
    let positions: Vec<f64> = (0_u32..).zip(&rows).map(|(position, _)| f64::from(position)).collect();
    let top = positions.last().map_or(0.0, |last| last + 0.5);
    let max = rows.iter().flat_map(|(_, row)| SYSTEMS.map(|(key, ..)| of(row, key).unwrap_or(1.0)));
    let max = max.fold(1.0, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder.caption(TITLE, FONT).margin(12).x_label_area_size(28).y_label_area_size(290);
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
        for ((key, label, color), offset) in SYSTEMS.into_iter().zip([0.0, -BAR]) {
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
    use super::core;
    use serde_json::json;

    #[test]
    fn picture_names_each_operation() {
        assert_eq!(core(&FigureRecord::default()).unwrap(), None);
        let mut record = FigureRecord::default();
        let figures = json!({
            "mpsc": { "ours": 1658.0, "linux": 11_207.0 },
            "mutex": { "ours": 11.0, "linux": 20.0 },
        });
        record.set("core", &figures, &Conditions::default());
        let svg = core(&record).unwrap().unwrap();
        for word in ["mpsc", "mutex", "this kernel", "Linux guest"] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
        assert_eq!(core(&record).unwrap().unwrap(), svg);
    }
}
