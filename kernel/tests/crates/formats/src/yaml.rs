//! YAML.

use serde_yaml::Value;
use yaml_rust2::{Yaml, YamlEmitter, YamlLoader};

use crate::order::{Order, example};

/// Reads and writes YAML.
pub fn serde_yaml() -> crate_uses::Result {
    const TEXT: &str = "defaults: &defaults\n  retries: 3\n  hosts: [a, 'b: c']\nservice:\n  <<: *defaults\n  text: |\n    two\n    lines\n  folded: >-\n    one\n    line\n";

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

/// Reads YAML documents as values, and writes them.
pub fn yaml_rust2() -> crate_uses::Result {
    const TEXT: &str = "---\nnames: &n [x, ~, true, 0x1f, 1.5e3]\nagain: *n\n? [complex, key]\n: value\n---\n- \"escaped \\u00e9\"\n- 'it''s'\n";

    let documents = YamlLoader::load_from_str(TEXT)?;
    for document in &documents {
        let mut text = String::new();
        YamlEmitter::new(&mut text).dump(document)?;
        println!("{text}");
    }
    let first = &documents[0];
    println!(
        "{:?} {:?} {}",
        first["names"][3].as_i64(),
        first["again"][4].as_f64(),
        first["none"].is_badvalue()
    );
    println!(
        "{:?}",
        first.as_hash().map(|hash| hash.keys().filter(|key| matches!(key, Yaml::Array(_))).count())
    );
    println!("{}", YamlLoader::load_from_str("a: b: c").unwrap_err());
    Ok(())
}
