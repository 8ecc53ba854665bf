//! Finds files by patterns.

use glob::{MatchOptions, Pattern, glob_with};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
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
