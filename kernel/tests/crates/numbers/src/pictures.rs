//! Pictures and charts.

use std::io::Cursor;

use image::imageops::{FilterType, blur, resize, rotate90};
use image::{GrayImage, ImageFormat, ImageReader, Rgb, RgbImage};
use plotters::prelude::{
    BLUE, ChartBuilder, Circle, Color, IntoDrawingArea, LineSeries, RED, Rectangle, SVGBackend, WHITE,
};

/// Draws, filters, encodes and decodes a picture.
pub fn image() -> crate_uses::Result {
    let colour = |x: u32, y: u32| Rgb([(x * 5) as u8, (y * 7) as u8, (x * y) as u8]);
    let picture = RgbImage::from_fn(50, 30, colour);
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    println!("{} bytes, {}", bytes.get_ref().len(), crate_uses::digest(bytes.get_ref()));
    let again = ImageReader::new(Cursor::new(bytes.get_ref())).with_guessed_format()?.decode()?;
    crate_uses::ensure(again.to_rgb8() == picture, "another picture")?;
    let small = resize(&picture, 10, 10, FilterType::Nearest);
    println!("{} {:?}", crate_uses::digest(small.as_raw()), rotate90(&picture).dimensions());
    let grey: GrayImage = again.to_luma8();
    println!("{} {:?}", crate_uses::digest(&grey), blur(&grey, 1.5).get_pixel(20, 20));
    println!("{:?}", image::load_from_memory(&bytes.get_ref()[..200]).map_err(|error| error.to_string()));
    Ok(())
}

/// Draws a chart as SVG, without fonts.
pub fn plotters() -> crate_uses::Result {
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
