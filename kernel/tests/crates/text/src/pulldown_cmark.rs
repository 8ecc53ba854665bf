//! Parses Markdown to events and HTML.

use pulldown_cmark::{Event, Options, Parser, Tag, html};

const TEXT: &str = "# Title\n\n1. one\n2. two\n   - nested *emphasis* **strong**\n\n> quote <b>raw</b>\n\n\
                    ```rust\nfn main() {}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n[link](https://example.org \"title\")\n";

pub fn run() -> crate_uses::Result {
    let parser = Parser::new_ext(TEXT, Options::ENABLE_TABLES);
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => println!("heading {level} {range:?}"),
            Event::Text(text) => println!("text {text:?} {range:?}"),
            Event::Code(code) => println!("code {code:?}"),
            _ => {}
        }
    }
    let mut page = String::new();
    html::push_html(&mut page, Parser::new_ext(TEXT, Options::all()));
    println!("{page}");
    Ok(())
}
