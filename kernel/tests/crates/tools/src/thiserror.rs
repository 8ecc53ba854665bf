//! Error types.

use std::error::Error as _;
use std::io;
use std::num::ParseFloatError;

use thiserror::Error;

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

pub fn run() -> crate_uses::Result {
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
