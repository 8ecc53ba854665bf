//! Reads YAML documents as values, and writes them.

use yaml_rust2::{Yaml, YamlEmitter, YamlLoader};

const TEXT: &str = "---\nnames: &n [x, ~, true, 0x1f, 1.5e3]\nagain: *n\n? [complex, key]\n: value\n---\n- \"escaped \\u00e9\"\n- 'it''s'\n";

pub fn run() -> crate_uses::Result {
    let documents = YamlLoader::load_from_str(TEXT)?;
    for document in &documents {
        let mut text = String::new();
        YamlEmitter::new(&mut text).dump(document)?;
        println!("{text}");
    }
    let first = &documents[0];
    println!("{:?} {:?} {}", first["names"][3].as_i64(), first["again"][4].as_f64(), first["none"].is_badvalue());
    println!("{:?}", first.as_hash().map(|hash| hash.keys().filter(|key| matches!(key, Yaml::Array(_))).count()));
    println!("{}", YamlLoader::load_from_str("a: b: c").unwrap_err());
    Ok(())
}
