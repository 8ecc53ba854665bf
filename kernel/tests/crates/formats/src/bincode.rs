//! Encodes values compactly, and rejects truncated input.

use bincode::Options;

use crate::order::{Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let bytes = bincode::serialize(&order)?;
    println!("{} {}", bytes.len(), crate_uses::digest(&bytes));
    crate_uses::ensure(bincode::deserialize::<Order>(&bytes)? == order, "another value")?;
    let options = bincode::DefaultOptions::new().with_varint_encoding().with_big_endian();
    let short = options.serialize(&order)?;
    println!("{short:02x?}");
    for length in [0, 9, short.len() - 1] {
        println!("{}", options.deserialize::<Order>(&short[..length]).unwrap_err());
    }
    println!("{:?}", options.with_limit(20).serialize(&order).map_err(|error| error.to_string()));
    Ok(())
}
