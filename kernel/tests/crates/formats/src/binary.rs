//! Compact encodings of values.

use bincode::Options;
use ciborium::value::Value;
use prost::{Enumeration, Message, Oneof};

use crate::order::{Order, example};

/// Encodes values compactly, and rejects truncated input.
pub fn bincode() -> crate_uses::Result {
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

/// Encodes values as CBOR.
pub fn ciborium() -> crate_uses::Result {
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

/// Encodes values for small machines.
pub fn postcard() -> crate_uses::Result {
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

#[derive(Clone, PartialEq, Message)]
struct Person {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(sint64, optional, tag = "2")]
    balance: Option<i64>,
    #[prost(enumeration = "Level", repeated, tag = "3")]
    levels: Vec<i32>,
    #[prost(oneof = "Contact", tags = "4, 5")]
    contact: Option<Contact>,
    #[prost(btree_map = "string, double", tag = "6")]
    scores: std::collections::BTreeMap<String, f64>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Contact {
    #[prost(string, tag = "4")]
    Mail(String),
    #[prost(fixed32, tag = "5")]
    Number(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
enum Level {
    None = 0,
    High = 9,
}

/// Protocol buffers, from types with attributes.
pub fn prost() -> crate_uses::Result {
    let person = Person {
        name: "Ada".to_owned(),
        balance: Some(-300),
        levels: vec![Level::High.into(), Level::None.into(), 77],
        contact: Some(Contact::Number(0xdead_beef)),
        scores: [("a".to_owned(), 0.5), ("b".to_owned(), -1.0)].into(),
    };
    let bytes = person.encode_length_delimited_to_vec();
    println!("{} {bytes:02x?}", person.encoded_len());
    let again = Person::decode_length_delimited(bytes.as_slice())?;
    println!("{again:?} {:?}", again.levels().collect::<Vec<_>>());
    println!("{:?}", Person::decode(&bytes[1..9]).map_err(|error| error.to_string()));
    println!("{:?}", Person::decode(&[0x3a, 1, 0, 0x12, 5][..]).map(|person| (person.balance, person.name)));
    Ok(())
}

/// Encodes values as MessagePack.
pub fn rmp_serde() -> crate_uses::Result {
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
