//! XML.

use quick_xml::events::{BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use roxmltree::Document;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct List {
    #[serde(rename = "@kind")]
    kind: String,
    item: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(rename = "@id")]
    id: u32,
    #[serde(rename = "$text")]
    text: Option<String>,
}

/// Reads XML as events and as values, and writes it.
pub fn quick_xml() -> crate_uses::Result {
    const TEXT: &str = "<?xml version=\"1.0\"?><list kind='a&amp;b'><!-- note --><item id=\"1\">one &lt; two</item>\
                    <item id=\"2\"/><![CDATA[<raw>]]></list>";

    let mut reader = Reader::from_str(TEXT);
    loop {
        match reader.read_event()? {
            Event::Eof => break,
            Event::Start(start) | Event::Empty(start) => {
                let attributes = start.attributes().map(|found| Ok(found?.unescape_value()?.into_owned()));
                let attributes: Result<Vec<_>, quick_xml::Error> = attributes.collect();
                println!("{:?} {:?}", start.name(), attributes?);
            }
            Event::Text(text) => println!("{:?}", text.unescape()?),
            event => println!("{event:?}"),
        }
    }
    println!(
        "{:?}",
        quick_xml::de::from_str::<List>("<list kind='k'><item id='3'>x</item><item id='4'/></list>")?
    );
    println!(
        "{:?}",
        quick_xml::de::from_str::<List>("<list><item></list>").map_err(|error| error.to_string())
    );
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Start(BytesStart::new("a").with_attributes([("b", "\"<c>\"")])))?;
    writer.create_element("d").write_text_content(BytesText::new("e & f"))?;
    writer.write_event(Event::End(BytesStart::new("a").to_end()))?;
    println!("{}", String::from_utf8(writer.into_inner())?);
    Ok(())
}

/// Reads XML as a tree.
pub fn roxmltree() -> crate_uses::Result {
    const TEXT: &str = "<!DOCTYPE r [<!ENTITY who 'world'>]>\n<r xmlns='urn:a' xmlns:b='urn:b'>\n  <b:e id='1' b:n='x'>Hello, &who;!</b:e>\n  <e/>\n</r>";

    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = Document::parse_with_options(TEXT, options)?;
    for node in document.descendants().filter(|node| node.is_element()) {
        println!(
            "{:?} {:?} {}",
            node.tag_name().namespace(),
            node.tag_name().name(),
            document.text_pos_at(node.range().start)
        );
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
