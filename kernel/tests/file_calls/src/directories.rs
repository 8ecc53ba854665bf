//! Directories: creating, removing, reading.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;

use crate::{Row, show};

fn names(path: &str) -> io::Result<BTreeSet<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

pub(crate) const ROWS: &[Row] = &[
    ("create_dir", || Ok(show::result(fs::create_dir("x")) + " " + &show::tree(".")?)),
    ("create_dir.slash", || Ok(show::result(fs::create_dir("x/")) + " " + &show::tree(".")?)),
    ("create_dir.twice", || Ok(show::result(fs::create_dir("x").and_then(|()| fs::create_dir("x"))))),
    ("create_dir.file", || {
        fs::write("x", "")?;
        Ok(show::result(fs::create_dir("x")) + " " + &show::result(fs::create_dir("x/")))
    }),
    ("create_dir.without.parent", || Ok(show::result(fs::create_dir("x/y")))),
    ("create_dir.dot", || Ok(show::result(fs::create_dir(".")) + " " + &show::result(fs::create_dir("..")))),
    ("create_dir.root", || Ok(show::result(fs::create_dir("/")))),
    ("create_dir.empty", || Ok(show::result(fs::create_dir("")))),
    ("create_dir_all", || Ok(show::result(fs::create_dir_all("x/y/z")) + " " + &show::tree(".")?)),
    ("create_dir_all.twice", || {
        Ok(show::result(fs::create_dir_all("x/y").and_then(|()| fs::create_dir_all("x/y"))))
    }),
    ("create_dir_all.through.file", || {
        fs::write("x", "")?;
        Ok(show::result(fs::create_dir_all("x/y")))
    }),
    ("create_dir.below.parent", || {
        Ok(show::result(fs::create_dir("x/../y")) + &show::result(fs::create_dir("./y")))
    }),
    ("remove_dir", || {
        Ok(show::result(fs::create_dir("x").and_then(|()| fs::remove_dir("x"))) + &show::tree(".")?)
    }),
    ("remove_dir.slash", || Ok(show::result(fs::create_dir("x").and_then(|()| fs::remove_dir("x/"))))),
    ("remove_dir.full", || Ok(show::result(fs::create_dir_all("x/y").and_then(|()| fs::remove_dir("x"))))),
    ("remove_dir.file", || Ok(show::result(fs::write("x", "").and_then(|()| fs::remove_dir("x"))))),
    ("remove_dir.absent", || Ok(show::result(fs::remove_dir("x")))),
    ("remove_dir.dot", || {
        fs::create_dir("x")?;
        Ok(format!("{} {}", show::result(fs::remove_dir("x/.")), show::result(fs::remove_dir("x/.."))))
    }),
    ("remove_dir.root", || Ok(show::result(fs::remove_dir("/")))),
    ("remove_file", || {
        Ok(show::result(fs::write("x", "").and_then(|()| fs::remove_file("x"))) + &show::tree(".")?)
    }),
    ("remove_file.absent", || Ok(show::result(fs::remove_file("x")))),
    ("remove_file.directory", || Ok(show::result(fs::create_dir("x").and_then(|()| fs::remove_file("x"))))),
    ("remove_file.slash", || Ok(show::result(fs::write("x", "").and_then(|()| fs::remove_file("x/"))))),
    ("remove_file.dot", || Ok(show::result(fs::remove_file(".")))),
    ("remove_dir_all", || {
        fs::create_dir_all("x/y/z")?;
        fs::write("x/file", "")?;
        fs::write("x/y/file", "")?;
        Ok(show::result(fs::remove_dir_all("x")) + &show::tree(".")?)
    }),
    ("remove_dir_all.absent", || Ok(show::result(fs::remove_dir_all("x")))),
    ("remove_dir_all.file", || {
        Ok(show::success(fs::write("x", "").and_then(|()| fs::remove_dir_all("x/y"))))
    }),
    ("read_dir", || {
        fs::create_dir("x")?;
        fs::write("y", "")?;
        Ok(format!("{:?}", names(".")?))
    }),
    ("read_dir.empty", || Ok(format!("{:?}", names(".")?))),
    ("read_dir.absent", || Ok(show::success(fs::read_dir("x")))),
    ("read_dir.file", || Ok(show::success(fs::write("x", "").and_then(|()| fs::read_dir("x"))))),
    ("read_dir.many", || {
        for number in 0..3000 {
            File::create(format!("a file with a longer name, number {number}"))?;
        }
        Ok(format!("{} {}", fs::read_dir(".")?.count(), names(".")?.len()))
    }),
    ("read_dir.removing", || {
        for number in 0..500 {
            fs::write(format!("{number}"), "")?;
        }
        for entry in fs::read_dir(".")? {
            fs::remove_file(entry?.path())?;
        }
        Ok(format!("{}", names(".")?.len()))
    }),
    ("read_dir.entry", || {
        fs::create_dir("x")?;
        fs::write("x/file", "abc")?;
        let entry = fs::read_dir("x")?.next().transpose()?.ok_or(io::ErrorKind::NotFound)?;
        Ok(format!(
            "{} {} {}",
            entry.path().display(),
            show::metadata(&entry.metadata()?),
            entry.file_type()?.is_file()
        ))
    }),
    ("read_dir.removed.directory", || {
        fs::create_dir("x")?;
        let entries = fs::read_dir("x")?;
        fs::remove_dir("x")?;
        Ok(format!("{}", entries.count()))
    }),
];
