//! Types of errors.

use std::error::Error as _;
use std::io;
use std::num::{ParseFloatError, ParseIntError};

use anyhow::{Context, anyhow, bail, ensure};
use thiserror::Error;

fn port(text: &str) -> anyhow::Result<u16> {
    let number: u32 = text.trim().parse().with_context(|| format!("invalid port `{text}`"))?;
    ensure!(number != 0, "port is zero");
    if number > 65_535 {
        bail!("port {number} is too large");
    }
    Ok(number as u16)
}

/// Errors with context.
pub fn anyhow() -> crate_uses::Result {
    use anyhow::Error;

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

#[derive(Debug, Error)]
enum Problem {
    #[error("cannot read {path:?}")]
    Read { path: String, source: io::Error },
    #[error("invalid number: {0}")]
    Number(#[from] ParseFloatError),
    #[error("{} of {max} items are too many", .items.len())]
    TooMany { items: Vec<u8>, max: usize },
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

fn sum(texts: &[&str]) -> Result<f64, Problem> {
    if texts.len() > 3 {
        return Err(Problem::TooMany { items: vec![0; texts.len()], max: 3 });
    }
    texts.iter().try_fold(0.0, |sum, text| Ok(sum + text.parse::<f64>()?))
}

/// Error types.
pub fn thiserror() -> crate_uses::Result {
    for texts in [&["1", "2.5"][..], &["x"], &["1"; 4]] {
        match sum(texts) {
            Ok(sum) => println!("{sum}"),
            Err(problem) => println!("{problem} {:?}", problem.source().map(ToString::to_string)),
        }
    }
    let source = std::fs::File::open("/none/file").err().ok_or("the file exists")?;
    let problem = Problem::Read { path: "/none/file".to_owned(), source };
    println!("{problem} {}", problem.source().is_some());
    println!("{}", Problem::Other("from text".into()));
    Ok(())
}
