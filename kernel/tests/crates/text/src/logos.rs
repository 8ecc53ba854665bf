//! Splits an expression into tokens.

use logos::Logos;

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

pub fn run() -> crate_uses::Result {
    let source = "let letter = (a1 + 2.50) == \"quoted \\\" text\" # 3";
    let mut lexer = Token::lexer(source);
    while let Some(token) = lexer.next() {
        println!("{token:?} {:?} {:?}", lexer.span(), lexer.slice());
    }
    Ok(())
}
