//! Parses arithmetic expressions.

use nom::branch::alt;
use nom::character::complete::{char, digit1, multispace0, one_of};
use nom::combinator::{all_consuming, map_res};
use nom::multi::fold_many0;
use nom::sequence::delimited;
use nom::{IResult, Parser};

fn atom(input: &str) -> IResult<&str, i64> {
    let number = map_res(digit1, str::parse::<i64>);
    let group = delimited(char('('), sum, char(')'));
    delimited(multispace0, alt((number, group)), multispace0).parse(input)
}

fn product(input: &str) -> IResult<&str, i64> {
    let (input, first) = atom(input)?;
    let apply = |left, (operator, right)| if operator == '*' { left * right } else { left / right };
    fold_many0((one_of("*/"), atom), move || first, apply).parse(input)
}

fn sum(input: &str) -> IResult<&str, i64> {
    let (input, first) = product(input)?;
    let apply = |left, (operator, right)| if operator == '+' { left + right } else { left - right };
    fold_many0((one_of("+-"), product), move || first, apply).parse(input)
}

pub fn run() -> crate_uses::Result {
    for text in ["1 + 2 * 3", "(1 + 2) * 3 - 4 / 2", " 2*(3+(4-1)) ", "2 +", "(1", "99999999999999999999"] {
        match all_consuming(sum).parse(text) {
            Ok((_, value)) => println!("{text} = {value}"),
            Err(error) => println!("{text}: {error}"),
        }
    }
    Ok(())
}
