//! Parses colours and lists of settings.

use winnow::ascii::{alphanumeric1, digit1, space0};
use winnow::combinator::{alt, delimited, preceded, separated, separated_pair};
use winnow::token::{take_till, take_while};
use winnow::{ModalResult, Parser};

#[derive(Debug)]
enum Value {
    Colour(u8, u8, u8),
    Number(i64),
    Text(String),
}

fn channel(input: &mut &str) -> ModalResult<u8> {
    take_while(2, |character: char| character.is_ascii_hexdigit())
        .try_map(|digits| u8::from_str_radix(digits, 16))
        .parse_next(input)
}

fn value(input: &mut &str) -> ModalResult<Value> {
    let colour =
        preceded('#', (channel, channel, channel)).map(|(red, green, blue)| Value::Colour(red, green, blue));
    let number = digit1.parse_to().map(Value::Number);
    let text = delimited('"', take_till(0.., '"'), '"').map(|text: &str| Value::Text(text.to_owned()));
    alt((colour, number, text)).parse_next(input)
}

fn settings(input: &mut &str) -> ModalResult<Vec<(String, Value)>> {
    let name = alphanumeric1.map(str::to_owned);
    let setting = separated_pair(name, (space0, '=', space0), value);
    separated(1.., setting, (space0, ';', space0)).parse_next(input)
}

pub fn run() -> crate_uses::Result {
    for text in ["sky = #2F14DF; size=12 ; name = \"a b\"", "a = #12345", "a = 1; b", ""] {
        match settings.parse(text) {
            Ok(found) => println!("{found:?}"),
            Err(error) => println!("error at {}", error.offset()),
        }
    }
    Ok(())
}
