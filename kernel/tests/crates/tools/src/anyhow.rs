//! Errors with context.

use std::io;
use std::num::ParseIntError;

use anyhow::{Context, Error, anyhow, bail, ensure};

fn port(text: &str) -> anyhow::Result<u16> {
    let number: u32 = text.trim().parse().with_context(|| format!("invalid port `{text}`"))?;
    ensure!(number != 0, "port is zero");
    if number > 65_535 {
        bail!("port {number} is too large");
    }
    Ok(number as u16)
}

pub fn run() -> crate_uses::Result {
    for text in [" 80 ", "http", "0", "70000"] {
        match port(text).context("cannot read the settings") {
            Ok(port) => println!("{port}"),
            Err(error) => {
                println!("{error:#} {}", error.chain().count());
                println!("{:?}", error.downcast_ref::<ParseIntError>().map(ToString::to_string));
            }
        }
    }
    let error: Error = io::Error::new(io::ErrorKind::NotFound, "no file").into();
    println!("{:?} {}", error.downcast_ref::<io::Error>().map(io::Error::kind), error.root_cause());
    println!("{}", anyhow!("one {}", 1).context("two").context(3));
    Ok(())
}
