//! Reads and writes YAML.

use serde_yaml::Value;

use crate::order::{Order, example};

const TEXT: &str = "defaults: &defaults\n  retries: 3\n  hosts: [a, 'b: c']\nservice:\n  <<: *defaults\n  text: |\n    two\n    lines\n  folded: >-\n    one\n    line\n";

pub fn run() -> crate_uses::Result {
    let order = example();
    let text = serde_yaml::to_string(&order)?;
    println!("{text}");
    crate_uses::ensure(serde_yaml::from_str::<Order>(&text)? == order, "another value")?;
    let mut value: Value = serde_yaml::from_str(TEXT)?;
    value.apply_merge()?;
    println!("{:?}", value["service"]);
    println!("{}", serde_yaml::from_str::<Value>("a: [1, 2\nb: 3").unwrap_err());
    println!("{}", serde_yaml::from_str::<Order>("id: -1").unwrap_err());
    Ok(())
}
