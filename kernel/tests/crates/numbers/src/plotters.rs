//! Draws a chart as SVG, without fonts.

use plotters::prelude::{BLUE, ChartBuilder, Circle, Color, IntoDrawingArea, LineSeries, Rectangle, RED, SVGBackend, WHITE};

pub fn run() -> crate_uses::Result {
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (320, 200)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area).margin(10).build_cartesian_2d(0.0..10.0, -1.0..1.0)?;
        let points = (0..100).map(|step| f64::from(step) / 10.0).map(|x| (x, (x * x / 4.0).sin()));
        chart.draw_series(LineSeries::new(points, &RED))?;
        chart.draw_series((0..5).map(|x| Circle::new((f64::from(x), 0.5), 4, BLUE.filled())))?;
        area.draw(&Rectangle::new([(5, 5), (50, 40)], BLUE.mix(0.5).stroke_width(2)))?;
        area.present()?;
    }
    println!("{} bytes, {}", picture.len(), crate_uses::digest(picture.as_bytes()));
    println!("{}", picture.lines().take(3).collect::<Vec<_>>().join("\n"));
    Ok(())
}
