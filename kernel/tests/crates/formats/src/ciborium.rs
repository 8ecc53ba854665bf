//! Encodes values as CBOR.

use ciborium::value::Value;

use crate::order::{Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let mut bytes = Vec::new();
    ciborium::into_writer(&order, &mut bytes)?;
    println!("{} {}", bytes.len(), crate_uses::digest(&bytes));
    let again: Order = ciborium::from_reader(bytes.as_slice())?;
    crate_uses::ensure(again == order, "another value")?;
    let value: Value = ciborium::from_reader(bytes.as_slice())?;
    for (key, value) in value.as_map().ok_or("no map")?.iter().take(3) {
        println!("{key:?} {value:?}");
    }
    println!("{:?}", ciborium::from_reader::<Value, _>(&[0x82, 0x18][..]).map_err(|error| error.to_string()));
    println!("{:?}", ciborium::from_reader::<Value, _>(&[0xc1, 0x1a, 0x51, 0x4b, 0x67, 0xb0][..])?);
    Ok(())
}
