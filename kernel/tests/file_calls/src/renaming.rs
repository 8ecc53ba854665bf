//! `rename`.

use std::fs::{self, File};
use std::io;

use crate::{Row, show};

/// Creates directories (names that end in a slash) and files, renames, and tells the tree.
fn rename(existing: &[&str], from: &str, to: &str) -> io::Result<String> {
    for path in existing {
        match path.strip_suffix('/') {
            Some(directory) => fs::create_dir_all(directory)?,
            None => fs::write(path, path)?,
        }
    }
    Ok(format!("{} {}", show::result(fs::rename(from, to)), show::tree(".")?))
}

pub(crate) const ROWS: &[Row] = &[
    ("rename.file", || rename(&["x"], "x", "y")),
    ("rename.file.into.directory", || rename(&["x", "d/"], "x", "d/y")),
    ("rename.replaces.file", || rename(&["x", "y"], "x", "y")),
    ("rename.itself", || rename(&["x"], "x", "x")),
    ("rename.itself.by.another.path", || rename(&["x", "d/"], "x", "d/../x")),
    ("rename.absent", || rename(&[], "x", "y")),
    ("rename.absent.replaces", || rename(&["y"], "x", "y")),
    ("rename.into.absent", || rename(&["x"], "x", "d/y")),
    ("rename.directory", || rename(&["d/", "d/file"], "d", "e")),
    ("rename.directory.into.directory", || rename(&["d/", "d/file", "e/"], "d", "e/d")),
    ("rename.directory.replaces.empty", || rename(&["d/", "d/file", "e/"], "d", "e")),
    ("rename.directory.replaces.full", || rename(&["d/", "e/", "e/file"], "d", "e")),
    ("rename.directory.replaces.file", || rename(&["d/", "x"], "d", "x")),
    ("rename.file.replaces.directory", || rename(&["x", "d/"], "x", "d")),
    ("rename.directory.into.itself", || rename(&["d/"], "d", "d/e")),
    ("rename.directory.onto.parent", || rename(&["d/e/"], "d/e", "d")),
    ("rename.slash.file", || rename(&["x"], "x/", "y")),
    ("rename.to.slash", || rename(&["x"], "x", "y/")),
    ("rename.directory.slashes", || rename(&["d/"], "d/", "e/")),
    ("rename.dot", || rename(&["d/"], "d/.", "e")),
    ("rename.to.dot", || rename(&["d/"], "d", ".")),
    ("rename.hard.links", || {
        fs::write("x", "abc")?;
        fs::hard_link("x", "y")?;
        Ok(format!("{} {}", show::result(fs::rename("x", "y")), show::tree(".")?))
    }),
    ("rename.open.file", || {
        let file = File::create("x")?;
        fs::rename("x", "y")?;
        file.set_len(3)?;
        Ok(format!("{}", fs::metadata("y")?.len()))
    }),
    ("rename.replaces.open.file", || {
        fs::write("x", "new")?;
        fs::write("y", "old")?;
        let old = File::open("y")?;
        fs::rename("x", "y")?;
        Ok(format!("{} {}", io::read_to_string(old)?, fs::read_to_string("y")?))
    }),
];
