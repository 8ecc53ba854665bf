//! A value with what formats have to encode.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Order {
    pub id: u64,
    pub customer: String,
    pub note: Option<String>,
    pub items: Vec<Item>,
    pub tags: BTreeMap<String, i32>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Item {
    pub name: String,
    pub price: f64,
    pub kind: Kind,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Kind {
    Plain,
    Sized(u16, u16),
    Named { label: String },
}

/// An order with three items.
pub fn example() -> Order {
    let item = |name: &str, price, kind| Item { name: name.to_owned(), price, kind };
    Order {
        id: 1 << 40,
        customer: "Zoë \"Z\" <Müller> & Co".to_owned(),
        note: None,
        items: vec![
            item("bolt", 0.1, Kind::Plain),
            item("sheet", -12.75, Kind::Sized(300, 65535)),
            item("box\n", 1e-7, Kind::Named { label: "größe".to_owned() }),
        ],
        tags: [("a", 1), ("b", -70_000)].map(|(key, value)| (key.to_owned(), value)).into(),
    }
}
