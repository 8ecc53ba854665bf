//! Protocol buffers, from types with attributes.

use prost::{Enumeration, Message, Oneof};

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

pub fn run() -> crate_uses::Result {
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
