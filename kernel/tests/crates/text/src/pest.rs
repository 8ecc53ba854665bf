//! Parses by a grammar.

use pest::Parser;
use pest_derive::Parser;

#[derive(Parser)]
#[grammar_inline = r##"
WHITESPACE = _{ " " }
number = @{ "-"? ~ ASCII_DIGIT+ ~ ("." ~ ASCII_DIGIT+)? }
text = @{ "\"" ~ (!"\"" ~ ANY)* ~ "\"" }
list = { "[" ~ (value ~ ("," ~ value)*)? ~ "]" }
value = { number | text | list }
file = { SOI ~ value ~ EOI }
"##]
struct Lists;

pub fn run() -> crate_uses::Result {
    for text in ["[1, -2.5, [\"a b\", []], 3]", "\"só\"", "[1, 2", "[a]"] {
        match Lists::parse(Rule::file, text) {
            Ok(pairs) => {
                for pair in pairs.flatten() {
                    println!("{:?} {:?}", pair.as_rule(), pair.as_str());
                }
            }
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
