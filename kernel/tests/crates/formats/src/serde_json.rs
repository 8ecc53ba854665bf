//! Values, types and streams of JSON.

use serde_json::{Deserializer, Map, Value, json};

use crate::order::{Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let text = serde_json::to_string_pretty(&order)?;
    println!("{text}");
    crate_uses::ensure(serde_json::from_str::<Order>(&text)? == order, "another value")?;
    let mut value = json!({ "a": [1, 2.5, null, { "b": "\u{1f980}\"\\" }], "big": u64::MAX });
    println!("{value} {:?}", value.pointer("/a/3/b"));
    value["a"][0] = Value::from(-1);
    if let Some(list) = value["a"].as_array_mut() {
        list.push(Map::from_iter([("x".to_owned(), Value::Bool(true))]).into());
    }
    println!("{value}");
    for item in Deserializer::from_str("1 [2] \"three\" {\"4\":}").into_iter::<Value>() {
        println!("{:?}", item.map_err(|error| error.to_string()));
    }
    println!("{}", serde_json::from_str::<Order>("{\"id\": \"x\"}").unwrap_err());
    println!("{:?}", serde_json::from_str::<f64>("1.7976931348623157e308")?);
    Ok(())
}
