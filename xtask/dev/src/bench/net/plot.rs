//! Draws the figures as charts: a line for each system over the message sizes, or a bar for each system in
//! each row.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, Rectangle};
use plotters::prelude::{IntoLogRange, RGBColor, SVGBackend, WHITE};
use plotters::series::LineSeries;
use plotters::style::Color;

use super::super::chart::{self, Chart, FONT, SIZE};
use super::figures::{Figures, Row};
use super::system::System;
use super::topic::Table;

/// The font of a title.
const TITLE: (&str, u32) = ("sans-serif", 18);

/// Share of a row's width that its bars cover.
const BARS: f64 = 0.8;

/// Draws a chart of each table that has figures. Each chart is a file in the folder.
pub(super) fn draw(figures: &Figures, systems: &[System], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (table, name) in [
        (Table::ToServer, "host-to-guest.svg"),
        (Table::FromServer, "guest-to-host.svg"),
        (Table::Latency, "latency.svg"),
        (Table::Rates, "rates.svg"),
        (Table::Start, "start.svg"),
        (Table::WebRates, "web-rates.svg"),
        (Table::WebLatency, "web-latency.svg"),
        (Table::LossyFromServer, "lossy-guest-to-host.svg"),
        (Table::LossyToServer, "lossy-host-to-guest.svg"),
        (Table::Completion, "completion.svg"),
        (Table::Fairness, "fairness.svg"),
    ] {
        let (rows, file) = (figures.rows(table).collect::<Vec<_>>(), folder.join(name));
        if !rows.is_empty() {
            chart(&file, table, &rows, systems).with_context(|| format!("cannot draw {}", file.display()))?;
            eprintln!("net: see {}", file.display());
        }
    }
    Ok(())
}

/// Draws the chart of a table.
fn chart(file: &Path, table: Table, rows: &[&Row], systems: &[System]) -> Result<()> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let places: Vec<f64> = (0_u32..).zip(rows).map(|(place, _)| f64::from(place)).collect();
    let width = places.len().max(1).to_string().parse::<f64>()?;
    let across = -0.5..width - 0.5;
    let mut builder = ChartBuilder::on(&area);
    builder.caption(table.to_string(), TITLE).margin(12).x_label_area_size(28).y_label_area_size(64);
    let mut chart = builder.build_cartesian_2d(across, range(rows, systems).log_scale())?;
    let name = |place: &f64| {
        let row = places.iter().position(|other| (place - other).abs() < 0.1);
        row.and_then(|row| rows.get(row)).map(|row| row.name.clone()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(rows.len() + 1)
        .x_label_formatter(&name)
        .label_style(FONT)
        .draw()?;
    for (number, &system) in systems.iter().enumerate() {
        let figures = places.iter().zip(rows).filter_map(|(place, row)| Some((*place, row.median(system)?)));
        let figures: Vec<(f64, f64)> = figures.collect();
        if matches!(table, Table::ToServer | Table::FromServer) {
            line(&mut chart, system, &figures)?;
        } else {
            bars(&mut chart, system, &figures, span(number, systems.len())?)?;
        }
    }
    chart::legend(&mut chart.configure_series_labels())?;
    area.present()?;
    Ok(())
}

/// Draws a line with a circle at each figure.
fn line(chart: &mut Chart<'_, '_>, system: System, figures: &[(f64, f64)]) -> Result<()> {
    let color = color(system);
    let series = LineSeries::new(figures.iter().copied(), color.stroke_width(2));
    chart.draw_series(series)?.label(system.to_string()).legend(move |place| legend_key(place, color));
    chart.draw_series(figures.iter().map(|&place| Circle::new(place, 3, color.filled())))?;
    Ok(())
}

/// Draws a bar for each figure.
fn bars(chart: &mut Chart<'_, '_>, system: System, figures: &[(f64, f64)], span: Range<f64>) -> Result<()> {
    let color = color(system);
    let bar = |&(place, figure): &(f64, f64)| {
        Rectangle::new([(place + span.start, f64::MIN_POSITIVE), (place + span.end, figure)], color.filled())
    };
    let bars = chart.draw_series(figures.iter().map(bar))?;
    bars.label(system.to_string()).legend(move |place| legend_key(place, color));
    Ok(())
}

/// Returns the coloured rectangle beside a system's name in the legend.
fn legend_key((x, y): (i32, i32), color: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 4), (x + 16, y + 4)], color.filled())
}

/// Returns the horizontal range of one system's bar, relative to the middle of a row.
fn span(number: usize, count: usize) -> Result<Range<f64>> {
    let [number, count] = [u32::try_from(number)?, u32::try_from(count)?].map(f64::from);
    let start = BARS * (number / count - 0.5);
    Ok(start..start + BARS / count)
}

/// Returns the range of the vertical axis.
fn range(rows: &[&Row], systems: &[System]) -> Range<f64> {
    let figures = rows.iter().flat_map(|row| systems.iter().filter_map(|&system| row.median(system)));
    let figures = figures.filter(|figure| figure.is_finite() && *figure > 0.0);
    let (least, most) = figures
        .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), figure| (least.min(figure), most.max(figure)));
    // Leaves room for the legend at the top.
    least.min(most) / 2.0..most * 4.0
}

/// Returns the colour of a system.
fn color(system: System) -> RGBColor {
    match system {
        System::Uhyve => chart::RED,
        System::UhyvePorts => RGBColor(150, 20, 40),
        System::Qemu => chart::ORANGE,
        System::Linux => chart::BLUE,
        System::LinuxNoTso => RGBColor(148, 190, 220),
        System::Veth => RGBColor(44, 160, 44),
        System::Loopback => RGBColor(160, 160, 160),
        System::Podman => RGBColor(120, 60, 150),
        System::Slirp => RGBColor(190, 150, 210),
        System::Pasta => RGBColor(120, 80, 40),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::figures::Figures;
    use super::super::system::System;
    use super::super::topic::Table;
    use super::draw;

    #[test]
    fn charts_name_rows_and_systems() {
        let mut figures = Figures::default();
        for (name, figure) in [("64 B", 40.0), ("1 KiB", 300.0)] {
            figures.add(Table::ToServer, name, System::Uhyve, figure);
            figures.add(Table::Latency, name, System::Veth, figure);
        }
        let folder = tempfile::tempdir().unwrap();
        draw(&figures, &[System::Uhyve, System::Veth], folder.path()).unwrap();
        for name in ["host-to-guest.svg", "latency.svg"] {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            for word in ["<svg", "64 B", "1 KiB", "uhyve", "veth"] {
                assert!(text.contains(word), "{name}: {word}\n{text}");
            }
        }
        assert!(!folder.path().join("rates.svg").exists());
    }
}
