//! Derived and own implementations, with a format of this file.

use std::fmt;

use serde::de::value::{Error, MapDeserializer, StrDeserializer};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Settings {
    #[serde(default = "default_name")]
    user_name: String,
    #[serde(deserialize_with = "size", default)]
    max_size: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    nothing: Option<Nothing>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Nothing {}

fn default_name() -> String {
    "anonymous".to_owned()
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Size;
    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a size such as 4k")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            let (number, factor) = text.strip_suffix('k').map_or((text, 1), |number| (number, 1024));
            let number: u64 =
                number.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
            Ok(number * factor)
        }
    }
    deserializer.deserialize_str(Size)
}

fn parse(pairs: &[(&'static str, &'static str)]) -> Result<Settings, Error> {
    Settings::deserialize(MapDeserializer::new(pairs.iter().copied()))
}

pub fn run() -> crate_uses::Result {
    println!("{:?}", parse(&[("user-name", "ada"), ("max-size", "4k")])?);
    println!("{:?}", parse(&[("max-size", "17")])?);
    println!("{:?}", parse(&[("max-size", "many")]).map_err(|error| error.to_string()));
    let text = StrDeserializer::<Error>::new("b");
    println!("{:?}", Letter::deserialize(text));
    println!(
        "{:?}",
        Letter::deserialize(StrDeserializer::<Error>::new("c")).map_err(|error| error.to_string())
    );
    println!("{}", Shown(&Letter::A));
    Ok(())
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Letter {
    A,
    B,
}

/// Displays what a value serialises to: serde implements a serializer for formatters.
struct Shown<'a, T>(&'a T);

impl<T: Serialize> fmt::Display for Shown<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(out)
    }
}
