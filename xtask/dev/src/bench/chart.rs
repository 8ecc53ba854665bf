//! Common parts of the charts of all suites.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition, SeriesLabelStyle};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::IntoDrawingArea;
use plotters::element::PathElement;
use plotters::prelude::{DrawingBackend, IntoLogRange, LogCoord, RGBColor, SVGBackend, WHITE};
use plotters::series::LineSeries;
use plotters::style::Color;

/// Width and height of a chart in pixels.
pub(super) const SIZE: (u32, u32) = (760, 460);

/// The font of all text except titles, and its size.
pub(super) const FONT: (&str, u32) = ("sans-serif", 14);

/// The colour of uhyve.
pub(super) const RED: RGBColor = RGBColor(214, 39, 40);

/// The colour of uhyve on KVM, in charts that also show uhyve's process engine.
pub(super) const PURPLE: RGBColor = RGBColor(148, 103, 189);

/// The colour of QEMU.
pub(super) const ORANGE: RGBColor = RGBColor(255, 127, 14);

/// The colour of Linux.
pub(super) const BLUE: RGBColor = RGBColor(31, 119, 180);

/// Logarithmic vertical coordinates, and linear horizontal ones.
type Coordinates = Cartesian2d<RangedCoordf64, LogCoord<f64>>;

/// A chart with a logarithmic vertical axis.
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Coordinates>;

/// Draws the legend, which consists of the labels of all series.
pub(super) fn legend<'a, Backend>(labels: &mut SeriesLabelStyle<'a, '_, Backend, Coordinates>) -> Result<()>
where
    Backend: DrawingBackend<ErrorType: 'static> + 'a,
{
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .draw()?;
    Ok(())
}

/// Times of a system in milliseconds by percentile, from 1 to 100.
#[derive(Debug)]
pub(super) struct PercentileCurve {
    pub(super) name: &'static str,
    pub(super) color: RGBColor,
    pub(super) milliseconds: Vec<f64>,
}

/// Draws a line for each system: for each percentage, the time within which that share of the operations was
/// done.
pub(super) fn draw_percentiles(
    file: &Path,
    title: &str,
    share: &str,
    curves: Vec<PercentileCurve>,
) -> Result<()> {
    let draw = || -> Result<()> {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        let times = || curves.iter().flat_map(|curve| curve.milliseconds.iter().copied());
        let (min, max) = (times().fold(1.0, f64::min).max(0.1), times().fold(1.0, f64::max));
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder.caption(title, FONT).margin(12).x_label_area_size(40).y_label_area_size(64);
        let mut chart = builder.build_cartesian_2d(0.0..100.0, (min..max * 2.0).log_scale())?;
        chart.configure_mesh().x_desc(share).label_style(FONT).draw()?;
        for PercentileCurve { name, color, milliseconds } in &curves {
            let points =
                (1_u32..=100).zip(milliseconds).map(|(percent, time)| (percent.into(), time.max(0.1)));
            let line = chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            let color = *color;
            line.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        legend(&mut chart.configure_series_labels())?;
        area.present()?;
        Ok(())
    };
    draw().with_context(|| format!("cannot draw {}", file.display()))?;
    eprintln!("see {}", file.display());
    Ok(())
}
