//! Draws, filters, encodes and decodes a picture.

use std::io::Cursor;

use image::imageops::{FilterType, blur, resize, rotate90};
use image::{GrayImage, ImageFormat, ImageReader, Rgb, RgbImage};

pub fn run() -> crate_uses::Result {
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
