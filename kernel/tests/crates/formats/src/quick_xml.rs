//! Reads XML as events and as values, and writes it.

use quick_xml::events::{BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use serde::Deserialize;

const TEXT: &str = "<?xml version=\"1.0\"?><list kind='a&amp;b'><!-- note --><item id=\"1\">one &lt; two</item>\
                    <item id=\"2\"/><![CDATA[<raw>]]></list>";

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

pub fn run() -> crate_uses::Result {
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
    println!("{:?}", quick_xml::de::from_str::<List>("<list kind='k'><item id='3'>x</item><item id='4'/></list>")?);
    println!("{:?}", quick_xml::de::from_str::<List>("<list><item></list>").map_err(|error| error.to_string()));
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Start(BytesStart::new("a").with_attributes([("b", "\"<c>\"")])))?;
    writer.create_element("d").write_text_content(BytesText::new("e & f"))?;
    writer.write_event(Event::End(BytesStart::new("a").to_end()))?;
    println!("{}", String::from_utf8(writer.into_inner())?);
    Ok(())
}
