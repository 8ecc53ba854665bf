//! Parses JSON, invalid JSON, and a text again after a change.

use ::tree_sitter::{InputEdit, Parser, Point};

pub fn run() -> crate_uses::Result {
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
