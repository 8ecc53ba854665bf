//! Measures how similar words are.

use strsim::{damerau_levenshtein, hamming, jaro, jaro_winkler, levenshtein, normalized_levenshtein, osa_distance, sorensen_dice};

pub fn run() -> crate_uses::Result {
    for (one, other) in [("kitten", "sitting"), ("MARTHA", "MARHTA"), ("ab", "bca"), ("öko", "oko"), ("", "abc")] {
        println!("{one} {other}: {} {}", levenshtein(one, other), damerau_levenshtein(one, other));
        println!("  {} {:.6}", osa_distance(one, other), normalized_levenshtein(one, other));
        println!("  {:.6} {:.6} {:.6}", jaro(one, other), jaro_winkler(one, other), sorensen_dice(one, other));
        println!("  {:?}", hamming(one, other));
    }
    Ok(())
}
