//! Encodes values for small machines.

use crate::order::{Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let bytes = postcard::to_stdvec(&order)?;
    println!("{bytes:02x?}");
    crate_uses::ensure(postcard::from_bytes::<Order>(&bytes)? == order, "another value")?;
    let mut framed = postcard::to_stdvec_cobs(&(1_u16, "text", [0_u8; 3]))?;
    println!("{framed:02x?}");
    framed.extend_from_slice(&[9, 9]);
    let (value, rest): ((u16, &str, [u8; 3]), _) = postcard::take_from_bytes_cobs(&mut framed)?;
    println!("{value:?} {rest:?}");
    for length in [1, 20] {
        println!("{:?}", postcard::from_bytes::<Order>(&bytes[..length]).map(|order| order.id));
    }
    Ok(())
}
