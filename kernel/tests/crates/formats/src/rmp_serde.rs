//! Encodes values as MessagePack.

use crate::order::{Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let (short, named) = (rmp_serde::to_vec(&order)?, rmp_serde::to_vec_named(&order)?);
    println!("{} {} {}", short.len(), named.len(), crate_uses::digest(&named));
    println!("{short:02x?}");
    crate_uses::ensure(rmp_serde::from_slice::<Order>(&short)? == order, "another value")?;
    crate_uses::ensure(rmp_serde::from_slice::<Order>(&named)? == order, "another value")?;
    println!("{:?}", rmp_serde::from_slice::<Order>(&short[..12]).map_err(|error| error.to_string()));
    println!("{:?}", rmp_serde::from_slice::<(u8, String)>(&[0x92, 0xcc, 0xff, 0xa1, b'x'])?);
    Ok(())
}
