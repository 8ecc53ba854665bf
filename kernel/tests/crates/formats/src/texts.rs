//! Values as text.

use csv::{ReaderBuilder, Trim, Writer};
use ron::ser::PrettyConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Map, json};
use toml::Table;

use crate::order::{Item, Kind, Order, example};

#[derive(Debug, Deserialize, Serialize)]
struct City {
    name: String,
    population: Option<u64>,
    #[serde(rename = "lat")]
    latitude: f64,
}

const TABLE: &str =
    "name;population;lat\nBerlin; 3782202;52.52\n\"Köln; am \"\"Rhein\"\"\";;50.938\n\nbad;x;1\n";

/// Reads and writes tables.
pub fn csv() -> crate_uses::Result {
    let mut reader = ReaderBuilder::new().delimiter(b';').trim(Trim::All).from_reader(TABLE.as_bytes());
    let mut writer = Writer::from_writer(Vec::new());
    for city in reader.deserialize::<City>() {
        match city {
            Ok(city) => {
                println!("{city:?}");
                writer.serialize(city)?;
            }
            Err(error) => println!("{error}"),
        }
    }
    writer.write_record(["quoted, \"field\"", "", "\n"])?;
    print!("{}", String::from_utf8(writer.into_inner()?)?);
    let mut uneven = ReaderBuilder::new().has_headers(false).from_reader(&b"a,b\nc,d,e\n"[..]);
    for record in uneven.records() {
        println!("{:?}", record.map_err(|error| error.to_string()));
    }
    Ok(())
}

/// Rusty object notation.
pub fn ron() -> crate_uses::Result {
    let order = example();
    let text =
        ron::ser::to_string_pretty(&order, PrettyConfig::new().new_line("\n".to_owned()).struct_names(true))?;
    println!("{text}");
    crate_uses::ensure(ron::from_str::<Order>(&text)? == order, "another value")?;
    for text in ["Named(label: \"x\", /* comment */)", "Sized(1, 2", "Other", "Sized(1, 70000)"] {
        println!("{:?}", ron::from_str::<Kind>(text).map_err(|error| error.to_string()));
    }
    println!("{:?}", ron::from_str::<ron::Value>("{ 1: [Some(true), 'c'], \"k\": () }")?);
    Ok(())
}

/// Values, types and streams of JSON.
pub fn serde_json() -> crate_uses::Result {
    use serde_json::Value;

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

const TEXT: &str = "title = \"ex\\u00e4mple\"\ndate = 1979-05-27T07:32:00-08:00\n[server]\nports = [ 8_000, 0x1F ]\n\
                    name.first = 'literal \\'\n[[item]]\nname = \"a\"\nprice = 1.5\nkind = \"Plain\"\n[[item]]\nname = \"b\"\n\
                    price = inf\nkind = { Named = { label = \"\"\"x\ny\"\"\" } }\n";

/// Reads and writes TOML.
pub fn toml() -> crate_uses::Result {
    use toml::Value;

    let table: Table = TEXT.parse()?;
    println!("{} {:?}", table["date"], table["server"]["ports"]);
    println!("{}", table["server"]["name"]["first"]);
    let items: Vec<Item> = table["item"].clone().try_into()?;
    println!("{items:?}");
    println!("{}", toml::to_string_pretty(&table)?);
    println!("{:?}", Value::try_from(&items[1])?.get("kind"));
    for text in ["a = ", "a = 1\na = 2", "[x\n", "a = 1979-13-01"] {
        println!("{}", text.parse::<Table>().unwrap_err().message());
    }
    Ok(())
}
