//! Paths, and patterns for them.

use std::fs;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use glob::{MatchOptions, Pattern, glob_with};
use globset::{Glob, GlobBuilder, GlobSetBuilder};
use path_absolutize::Absolutize;
use same_file::{Handle, is_same_file};

use crate::folder::Folder;

/// Paths of UTF-8.
pub fn camino() -> crate_uses::Result {
    let path = Utf8Path::new("/usr/lib/../größe.tar.gz");
    println!("{:?} {:?} {:?}", path.file_stem(), path.extension(), path.parent());
    println!("{:?}", path.components().map(|component| component.as_str()).collect::<Vec<_>>());
    let mut joined: Utf8PathBuf = ["a", "b"].iter().collect();
    joined.push("c.txt");
    joined.set_extension("rs");
    println!("{joined} {:?}", joined.strip_prefix("a"));
    let folder = Folder::with_tree("camino")?;
    let folder_path = Utf8PathBuf::try_from(folder.path().to_path_buf())?;
    let names = folder_path.read_dir_utf8()?.map(|entry| Ok(entry?.file_name().to_owned()));
    let mut names = names.collect::<Result<Vec<_>, std::io::Error>>()?;
    names.sort();
    println!(
        "{names:?} {}",
        folder_path.join("sub/deep/../c.rs").canonicalize_utf8()?.strip_prefix(&folder_path)?
    );
    Ok(())
}

/// Finds files by patterns.
pub fn glob() -> crate_uses::Result {
    let folder = Folder::with_tree("glob")?;
    let hidden = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    for pattern in ["*.txt", "**/*.rs", "sub/*", "[ab].*", "**/d?*"] {
        let pattern = folder.path().join(pattern).display().to_string();
        let found: Result<Vec<_>, _> = glob_with(&pattern, hidden)?.collect();
        println!("{:?}", found?.iter().map(|path| folder.relative(path)).collect::<Vec<_>>());
    }
    println!("{} {}", Pattern::new("a[!b-d]*")?.matches("aeiou"), Pattern::new("*.RS")?.matches("b.rs"));
    println!("{} {:?}", Pattern::escape("a*[b]"), Pattern::new("a**b").map_err(|error| error.to_string()));
    Ok(())
}

/// Matches many patterns at once.
pub fn globset() -> crate_uses::Result {
    let mut builder = GlobSetBuilder::new();
    for pattern in ["*.rs", "src/**/foo.rs", "{a,b}/[0-9]*", "**/deep/**"] {
        builder.add(Glob::new(pattern)?);
    }
    let set = builder.build()?;
    for path in ["lib.rs", "src/x/foo.rs", "a/7x", "c/7x", "x/deep/y/z", ""] {
        println!("{path:?} {:?}", set.matches(path));
    }
    let single = GlobBuilder::new("FOO/*.C").case_insensitive(true).literal_separator(true).build()?;
    println!(
        "{} {}",
        single.compile_matcher().is_match("foo/x.c"),
        single.compile_matcher().is_match("foo/y/x.c")
    );
    println!("{} {}", single.regex(), Glob::new("[a").unwrap_err());
    Ok(())
}

/// Resolves `.` and `..` without the file system.
pub fn path_absolutize() -> crate_uses::Result {
    for path in ["/a/./b/../c", "/../..", "/a//b/", "/a/b/../../../c"] {
        println!(
            "{:?} {:?}",
            Path::new(path).absolutize()?,
            Path::new(path).absolutize_virtually("/a").map_err(|error| error.to_string())
        );
    }
    for path in ["x/../y", "../z", "."] {
        println!("{:?}", Path::new(path).absolutize_from("/base/folder")?);
    }
    crate_uses::ensure(Path::new(".").absolutize()? == std::env::current_dir()?, "another folder")
}

/// Tells whether two paths are the same file.
pub fn same_file() -> crate_uses::Result {
    let folder = Folder::with_tree("same-file")?;
    let path = |name: &str| folder.path().join(name);
    fs::hard_link(path("a.txt"), path("link"))?;
    fs::copy(path("a.txt"), path("copy"))?;
    println!("{} {}", is_same_file(path("a.txt"), path("link"))?, is_same_file(path("a.txt"), path("copy"))?);
    println!("{}", is_same_file(path("sub/deep/../c.rs"), path("sub/c.rs"))?);
    println!("{:?}", is_same_file(path("a.txt"), path("none")).map_err(|error| error.kind()));
    let handle = Handle::from_path(path("link"))?;
    fs::rename(path("link"), path("renamed"))?;
    println!("{}", handle == Handle::from_path(path("renamed"))?);
    println!("{}", handle == Handle::from_file(fs::File::open(path("copy"))?)?);
    Ok(())
}
