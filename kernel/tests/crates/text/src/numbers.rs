//! Numbers as text.

use itoa::{Buffer, Integer};

fn print<N: Integer + ToString + Copy>(number: N) -> crate_uses::Result {
    let mut buffer = Buffer::new();
    let text = buffer.format(number);
    crate_uses::ensure(text == number.to_string(), text)?;
    println!("{text}");
    Ok(())
}

/// Prints integers, and compares them with std's.
pub fn itoa() -> crate_uses::Result {
    (0..40).try_for_each(|shift| print(7_u64 << shift))?;
    (0..12).try_for_each(|shift| print(i128::MIN >> (shift * 10)))?;
    print(u128::MAX)?;
    print(i8::MIN)?;
    crate_uses::numbers(1).take(1000).try_for_each(|number| {
        let text = Buffer::new().format(number).to_owned();
        crate_uses::ensure(text == number.to_string(), &text)
    })
}

/// Prints floating-point numbers, shortest first, and reads them back.
pub fn ryu() -> crate_uses::Result {
    use ryu::Buffer;

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
