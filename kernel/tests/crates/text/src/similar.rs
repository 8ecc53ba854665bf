//! Compares texts.

use similar::{Algorithm, ChangeTag, TextDiff};

const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";
const NEW: &str = "one\n2\nthree\nfour and a half\nfive\nsix\nseven\n";

pub fn run() -> crate_uses::Result {
    let diff = TextDiff::from_lines(OLD, NEW);
    print!("{}", diff.unified_diff().context_radius(1).header("old", "new"));
    println!("{:.4}", diff.ratio());
    for algorithm in [Algorithm::Myers, Algorithm::Lcs] {
        let words = TextDiff::configure().algorithm(algorithm).diff_words("a quick brown fox", "a slow brown dog");
        let changes = words.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
        println!("{:?}", changes.map(|change| format!("{}{}", change.tag(), change.value())).collect::<Vec<_>>());
    }
    println!("{:?}", similar::get_close_matches("appel", &["ape", "apple", "peach", "puppy"], 2, 0.6));
    Ok(())
}
