//! Regular expressions and syntax trees.

use onig::{Captures, Regex};
use tree_sitter::{InputEdit, Parser, Point};

/// Regular expressions with look-behind, back references and Unicode.
pub fn onig() -> crate_uses::Result {
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

/// Parses JSON, invalid JSON, and a text again after a change.
pub fn tree_sitter() -> crate_uses::Result {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_json::LANGUAGE.into())?;
    let mut text = r#"{"a": [1, 2.5e3, null], "größe": {"b": "c\n"}}"#.to_owned();
    let mut tree = parser.parse(&text, None).ok_or("no tree")?;
    println!("{}", tree.root_node().to_sexp());
    text.replace_range(7..8, "[[[");
    let edit = InputEdit {
        start_byte: 7,
        old_end_byte: 8,
        new_end_byte: 10,
        start_position: Point::new(0, 7),
        old_end_position: Point::new(0, 8),
        new_end_position: Point::new(0, 10),
    };
    tree.edit(&edit);
    let changed = parser.parse(&text, Some(&tree)).ok_or("no tree")?;
    println!("{} {}", changed.root_node().has_error(), changed.root_node().to_sexp());
    Ok(())
}
