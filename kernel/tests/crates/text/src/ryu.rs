//! Prints floating-point numbers, shortest first, and reads them back.

use ryu::Buffer;

pub fn run() -> crate_uses::Result {
    let mut buffer = Buffer::new();
    for number in [0.1 + 0.2, 1e21, -0.0, f64::MIN_POSITIVE, f64::MAX, 1.0 / 3.0, 5e-324] {
        println!("{}", buffer.format(number));
    }
    println!("{} {}", buffer.format(f64::NAN).to_owned(), buffer.format(f32::INFINITY));
    let mut all = String::new();
    for number in crate_uses::numbers(3).take(2000) {
        let value = f32::from_bits(number);
        if value.is_finite() {
            let text = buffer.format(value);
            crate_uses::ensure(text.parse::<f32>()?.to_bits() == value.to_bits(), text)?;
            all.push_str(text);
        }
    }
    println!("{}", crate_uses::digest(all.as_bytes()));
    Ok(())
}
