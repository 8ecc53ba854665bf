//! Reads and writes TOML.

use toml::{Table, Value};

use crate::order::Item;

const TEXT: &str = "title = \"ex\\u00e4mple\"\ndate = 1979-05-27T07:32:00-08:00\n[server]\nports = [ 8_000, 0x1F ]\n\
                    name.first = 'literal \\'\n[[item]]\nname = \"a\"\nprice = 1.5\nkind = \"Plain\"\n[[item]]\nname = \"b\"\n\
                    price = inf\nkind = { Named = { label = \"\"\"x\ny\"\"\" } }\n";

pub fn run() -> crate_uses::Result {
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
