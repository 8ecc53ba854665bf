//! What the charts of all suites share.

use anyhow::Result;
use plotters::chart::{ChartContext, SeriesLabelPosition, SeriesLabelStyle};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{DrawingBackend, LogCoord, RGBColor, SVGBackend, WHITE};
use plotters::style::Color;

/// Width and height of a chart in pixels.
pub(super) const SIZE: (u32, u32) = (760, 460);

/// The font of all text but titles, and its size.
pub(super) const FONT: (&str, u32) = ("sans-serif", 14);

/// The colour of uhyve.
pub(super) const RED: RGBColor = RGBColor(214, 39, 40);

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
