//! Regular expressions with look-behind, back references and Unicode.

use ::onig::{Captures, Regex};

pub fn run() -> crate_uses::Result {
    let word = Regex::new(r"(?<=\bder )(\p{L}+)|(\w)\2")?;
    let text = "der Bär und der Hund essen Kaffeebohnen; Straße";
    for (from, to) in word.find_iter(text) {
        println!("{from} {to} {}", &text[from..to]);
    }
    let named = Regex::new(r"(?<year>\d{4})-(?<month>\d\d)")?;
    let swapped = named.replace_all("2026-11 und 1999-01", |found: &Captures| {
        format!("{}/{}", found.at(2).unwrap_or_default(), found.at(1).unwrap_or_default())
    });
    println!("{swapped}");
    println!("{:?}", Regex::new("(").map(|_| ()).map_err(|error| error.code()));
    Ok(())
}
