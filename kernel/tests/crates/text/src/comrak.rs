//! Converts Markdown of GitHub's kind to HTML.

use comrak::{Options, markdown_to_html};

const TEXT: &str = "# Title\n\nA *paragraph* with `code`, ~~struck~~ text and https://example.org.\n\n\
                    | a | b |\n| --- | ---: |\n| 1 | 2 |\n\n- [x] done\n- [ ] open[^1]\n\n[^1]: A note.\n";

pub fn run() -> crate_uses::Result {
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
