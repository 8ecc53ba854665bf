//! Matches many patterns at once.

use globset::{Glob, GlobBuilder, GlobSetBuilder};

pub fn run() -> crate_uses::Result {
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
