//! Finds and replaces several words at once.

use aho_corasick::{AhoCorasick, MatchKind};

pub fn run() -> crate_uses::Result {
    let patterns = ["he", "she", "his", "hers", "usher"];
    let text = "ushers and his heirs; she says: hers";
    for kind in [MatchKind::LeftmostFirst, MatchKind::LeftmostLongest] {
        let automaton = AhoCorasick::builder().match_kind(kind).build(patterns)?;
        for found in automaton.find_iter(text) {
            println!("{kind:?} {} at {}..{}", patterns[found.pattern()], found.start(), found.end());
        }
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(patterns)?;
    println!("{}", automaton.replace_all("SHE and Hers", &["1", "2", "3", "4", "5"]));
    println!("{} overlapping", AhoCorasick::new(patterns)?.find_overlapping_iter(text).count());
    Ok(())
}
