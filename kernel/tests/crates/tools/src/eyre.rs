//! Errors with context, and a report of its own.

use std::error::Error;
use std::fmt;

use eyre::{EyreHandler, Result, WrapErr, bail, eyre};

struct Handler;

impl EyreHandler for Handler {
    fn debug(&self, error: &(dyn Error + 'static), out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "report: {error}")?;
        let mut source = error.source();
        while let Some(error) = source {
            write!(out, " <- {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<u8> {
    if text.is_empty() {
        bail!("nothing to parse");
    }
    text.parse().wrap_err_with(|| format!("cannot parse {text}"))
}

pub fn run() -> crate_uses::Result {
    eyre::set_hook(Box::new(|_| Box::new(Handler)))?;
    for text in ["5", "500", ""] {
        println!("{:?}", parse(text).wrap_err("failed"));
    }
    let error = eyre!("first").wrap_err("second");
    println!("{error} {:?}", error.chain().map(ToString::to_string).collect::<Vec<_>>());
    println!("{}", error.handler().is::<Handler>());
    Ok(())
}
