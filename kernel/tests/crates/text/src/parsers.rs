//! Parsers, and grammars for them.

use logos::Logos;
use nom::branch::alt;
use nom::character::complete::{char, digit1, multispace0, one_of};
use nom::combinator::{all_consuming, map_res};
use nom::multi::fold_many0;
use nom::sequence::delimited;
use nom::{IResult, Parser};
use semver::{BuildMetadata, Prerelease, Version, VersionReq};

#[derive(Debug, Logos, PartialEq)]
#[logos(skip r"[ \t\n]+")]
enum Token {
    #[regex("[a-zA-Z_][a-zA-Z0-9_]*", |lex| lex.slice().to_owned())]
    Name(String),
    #[regex(r"[0-9]+(\.[0-9]+)?", |lex| lex.slice().parse().ok())]
    Number(f64),
    #[regex(r#""([^"\\]|\\.)*""#)]
    Text,
    #[token("let")]
    Let,
    #[token("==")]
    Equal,
    #[token("=")]
    Assign,
    #[token("+")]
    Plus,
    #[token("(")]
    Open,
    #[token(")")]
    Close,
}

/// Splits an expression into tokens.
pub fn logos() -> crate_uses::Result {
    let source = "let letter = (a1 + 2.50) == \"quoted \\\" text\" # 3";
    let mut lexer = Token::lexer(source);
    while let Some(token) = lexer.next() {
        println!("{token:?} {:?} {:?}", lexer.span(), lexer.slice());
    }
    Ok(())
}

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

/// Parses arithmetic expressions.
pub fn nom() -> crate_uses::Result {
    for text in ["1 + 2 * 3", "(1 + 2) * 3 - 4 / 2", " 2*(3+(4-1)) ", "2 +", "(1", "99999999999999999999"] {
        match all_consuming(sum).parse(text) {
            Ok((_, value)) => println!("{text} = {value}"),
            Err(error) => println!("{text}: {error}"),
        }
    }
    Ok(())
}

/// Compares versions and requirements.
pub fn semver() -> crate_uses::Result {
    let mut versions: Vec<Version> =
        ["1.2.3", "1.2.3-beta.2", "1.10.0", "1.2.3-beta.10", "0.3.9", "2.0.0+build.5"]
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?;
    versions.sort();
    println!("{}", versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" < "));
    for text in ["^1.2", "~1.2.3", ">=1.2.3-beta, <2", "0.3.*", "="] {
        match VersionReq::parse(text) {
            Ok(requirement) => {
                let matching: Vec<_> =
                    versions.iter().filter(|version| requirement.matches(version)).collect();
                println!("{requirement}: {}", matching.len());
            }
            Err(error) => println!("{error}"),
        }
    }
    let version =
        Version { pre: Prerelease::new("rc.1")?, build: BuildMetadata::new("a7")?, ..Version::new(9, 0, 1) };
    println!("{version} {:?}", Version::parse("1.x"));
    Ok(())
}
