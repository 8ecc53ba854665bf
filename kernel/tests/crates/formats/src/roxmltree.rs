//! Reads XML as a tree.

use roxmltree::Document;

const TEXT: &str = "<!DOCTYPE r [<!ENTITY who 'world'>]>\n<r xmlns='urn:a' xmlns:b='urn:b'>\n  <b:e id='1' b:n='x'>Hello, &who;!</b:e>\n  <e/>\n</r>";

pub fn run() -> crate_uses::Result {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = Document::parse_with_options(TEXT, options)?;
    for node in document.descendants().filter(|node| node.is_element()) {
        println!("{:?} {:?} {}", node.tag_name().namespace(), node.tag_name().name(), document.text_pos_at(node.range().start));
        for attribute in node.attributes() {
            println!("  {:?} {} {:?}", attribute.namespace(), attribute.name(), attribute.value());
        }
        println!("  {:?}", node.text());
    }
    let found = document.descendants().find(|node| node.attribute(("urn:b", "n")) == Some("x"));
    println!("{:?}", found.and_then(|node| node.next_sibling_element()).map(|node| node.range()));
    for text in ["<a><b></a>", "<a b='1' b='2'/>", "<a>&x;</a>", ""] {
        println!("{}", Document::parse(text).unwrap_err());
    }
    Ok(())
}
