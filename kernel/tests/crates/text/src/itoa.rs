//! Prints integers, and compares them with std's.

use itoa::{Buffer, Integer};

fn print<N: Integer + ToString + Copy>(number: N) -> crate_uses::Result {
    let mut buffer = Buffer::new();
    let text = buffer.format(number);
    crate_uses::ensure(text == number.to_string(), text)?;
    println!("{text}");
    Ok(())
}

pub fn run() -> crate_uses::Result {
    (0..40).try_for_each(|shift| print(7_u64 << shift))?;
    (0..12).try_for_each(|shift| print(i128::MIN >> (shift * 10)))?;
    print(u128::MAX)?;
    print(i8::MIN)?;
    crate_uses::numbers(1).take(1000).try_for_each(|number| {
        let text = Buffer::new().format(number).to_owned();
        crate_uses::ensure(text == number.to_string(), &text)
    })
}
