//! Markdown.

use comrak::markdown_to_html;
use pulldown_cmark::{Event, Parser, Tag, html};

/// Converts Markdown of GitHub's kind to HTML.
pub fn comrak() -> crate_uses::Result {
    use comrak::Options;

    const TEXT: &str = "# Title\n\nA *paragraph* with `code`, ~~struck~~ text and https://example.org.\n\n\
                    | a | b |\n| --- | ---: |\n| 1 | 2 |\n\n- [x] done\n- [ ] open[^1]\n\n[^1]: A note.\n";

    println!("{}", markdown_to_html(TEXT, &Options::default()));
    let mut options = Options::default();
    options.extension.table = true;
    options.extension.strikethrough = true;
    options.extension.tasklist = true;
    options.extension.autolink = true;
    options.extension.footnotes = true;
    println!("{}", markdown_to_html(TEXT, &options));
    Ok(())
}

/// Parses Markdown to events and HTML.
pub fn pulldown_cmark() -> crate_uses::Result {
    use pulldown_cmark::Options;

    const TEXT: &str = "# Title\n\n1. one\n2. two\n   - nested *emphasis* **strong**\n\n> quote <b>raw</b>\n\n\
                    ```rust\nfn main() {}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n[link](https://example.org \"title\")\n";

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
