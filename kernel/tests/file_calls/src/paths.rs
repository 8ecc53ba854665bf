//! Names, long paths and `canonicalize`.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use crate::{Row, show};

/// `canonicalize`, relative to the current directory if it is below it.
fn canonicalized(path: &str) -> io::Result<String> {
    let here = fs::canonicalize(".")?;
    Ok(show::result(fs::canonicalize(path).map(|found| match found.strip_prefix(&here) {
        Ok(below) => PathBuf::from(".").join(below),
        Err(_) => found,
    })))
}

pub(crate) const ROWS: &[Row] = &[
    ("name.255", || {
        File::create("x".repeat(255))?;
        Ok(show::success(fs::metadata("x".repeat(255))))
    }),
    ("name.256", || Ok(show::success(File::create("x".repeat(256))))),
    ("name.256.lookup", || Ok(show::success(fs::metadata("x".repeat(256))))),
    ("path.4095", || Ok(show::success(fs::metadata("./".repeat(2047) + ".")))),
    ("path.4096", || Ok(show::success(fs::metadata("./".repeat(2048))))),
    ("path.deep", || {
        let path = "d/".repeat(200);
        fs::create_dir_all(&path)?;
        fs::write(path.clone() + "x", "abc")?;
        fs::read_to_string(path + "x")
    }),
    ("name.bytes", || {
        for name in ["a b", "ünïcode", "-", "*", "\n", "...", "\u{1f600}"] {
            fs::write(name, name)?;
        }
        Ok(format!("{:?}", show::tree(".")?))
    }),
    ("path.slashes", || {
        fs::create_dir("d")?;
        fs::write("d/x", "abc")?;
        fs::read_to_string(".//d///./x")
    }),
    ("path.root.parent", || Ok(show::metadata(&fs::metadata("/../../..")?))),
    ("path.through.file", || {
        fs::write("x", "")?;
        Ok(show::success(fs::metadata("x/..")) + " " + &show::success(fs::metadata("x/.")))
    }),
    ("path.through.absent", || Ok(show::success(fs::metadata("absent/..")))),
    ("canonicalize.file", || fs::write("x", "").and_then(|()| canonicalized("./x"))),
    ("canonicalize.directory", || fs::create_dir_all("d/e").and_then(|()| canonicalized("d/e/.././e/"))),
    (
        "canonicalize.root",
        || Ok(show::result(fs::canonicalize("/")) + &show::result(fs::canonicalize("/.."))),
    ),
    ("canonicalize.dot", || canonicalized(".")),
    ("canonicalize.absent", || canonicalized("absent")),
    ("canonicalize.slash.file", || fs::write("x", "").and_then(|()| canonicalized("x/"))),
    ("canonicalize.device", || Ok(show::result(fs::canonicalize("/dev/../dev/null")))),
];
