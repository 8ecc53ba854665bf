//! Crates for text and parsing.

mod markdown;
mod numbers;
mod parsers;
mod pest;
mod search;
mod unicode;
mod winnow;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("aho-corasick", search::aho_corasick),
        ("bstr", search::bstr),
        ("comrak", markdown::comrak),
        ("fst", search::fst),
        ("heck", words::heck),
        ("itoa", numbers::itoa),
        ("logos", parsers::logos),
        ("memchr", search::memchr),
        ("nom", parsers::nom),
        ("pest", pest::run),
        ("pulldown-cmark", markdown::pulldown_cmark),
        ("regex", search::regex),
        ("ryu", numbers::ryu),
        ("semver", parsers::semver),
        ("similar", words::similar),
        ("strsim", words::strsim),
        ("textwrap", words::textwrap),
        ("unicode-normalization", unicode::unicode_normalization),
        ("unicode-segmentation", unicode::unicode_segmentation),
        ("unicode-width", unicode::unicode_width),
        ("winnow", winnow::run),
    ])
}
