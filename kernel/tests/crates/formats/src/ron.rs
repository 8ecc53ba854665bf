//! Rusty object notation.

use ron::ser::PrettyConfig;

use crate::order::{Kind, Order, example};

pub fn run() -> crate_uses::Result {
    let order = example();
    let text = ron::ser::to_string_pretty(&order, PrettyConfig::new().new_line("\n".to_owned()).struct_names(true))?;
    println!("{text}");
    crate_uses::ensure(ron::from_str::<Order>(&text)? == order, "another value")?;
    for text in ["Named(label: \"x\", /* comment */)", "Sized(1, 2", "Other", "Sized(1, 70000)"] {
        println!("{:?}", ron::from_str::<Kind>(text).map_err(|error| error.to_string()));
    }
    println!("{:?}", ron::from_str::<ron::Value>("{ 1: [Some(true), 'c'], \"k\": () }")?);
    Ok(())
}
