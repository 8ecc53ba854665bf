//! Words and lines: conventions, differences, wrapping.

use heck::{
    ToKebabCase, ToLowerCamelCase, ToPascalCase, ToShoutySnakeCase, ToSnakeCase, ToTitleCase, ToTrainCase,
};
use similar::{Algorithm, ChangeTag, TextDiff};
use strsim::{
    damerau_levenshtein, hamming, jaro, jaro_winkler, levenshtein, normalized_levenshtein, osa_distance,
    sorensen_dice,
};
use textwrap::{Options, WrapAlgorithm, dedent, fill, indent, wrap};

/// Converts names between conventions.
pub fn heck() -> crate_uses::Result {
    for name in ["XMLHttpRequest", "some_words here", "ΦιλοΣοφία-ὕδωρ", "abc123DEF456", "", "a__b--c"]
    {
        println!("{} {} {}", name.to_snake_case(), name.to_kebab_case(), name.to_lower_camel_case());
        println!("{} {} {}", name.to_pascal_case(), name.to_shouty_snake_case(), name.to_train_case());
        println!("{}", name.to_title_case());
    }
    Ok(())
}

const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";
const NEW: &str = "one\n2\nthree\nfour and a half\nfive\nsix\nseven\n";

/// Compares texts.
pub fn similar() -> crate_uses::Result {
    let diff = TextDiff::from_lines(OLD, NEW);
    print!("{}", diff.unified_diff().context_radius(1).header("old", "new"));
    println!("{:.4}", diff.ratio());
    for algorithm in [Algorithm::Myers, Algorithm::Lcs] {
        let words =
            TextDiff::configure().algorithm(algorithm).diff_words("a quick brown fox", "a slow brown dog");
        let changes = words.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
        println!(
            "{:?}",
            changes.map(|change| format!("{}{}", change.tag(), change.value())).collect::<Vec<_>>()
        );
    }
    println!("{:?}", similar::get_close_matches("appel", &["ape", "apple", "peach", "puppy"], 2, 0.6));
    Ok(())
}

/// Measures how similar words are.
pub fn strsim() -> crate_uses::Result {
    for (one, other) in
        [("kitten", "sitting"), ("MARTHA", "MARHTA"), ("ab", "bca"), ("öko", "oko"), ("", "abc")]
    {
        println!("{one} {other}: {} {}", levenshtein(one, other), damerau_levenshtein(one, other));
        println!("  {} {:.6}", osa_distance(one, other), normalized_levenshtein(one, other));
        println!(
            "  {:.6} {:.6} {:.6}",
            jaro(one, other),
            jaro_winkler(one, other),
            sorensen_dice(one, other)
        );
        println!("  {:?}", hamming(one, other));
    }
    Ok(())
}

const TEXT: &str = "Memory safety without garbage collection, concurrency without data races, and abstraction \
                    without overhead: zero-cost abstractions – größer werden.";

/// Wraps, fills and indents text.
pub fn textwrap() -> crate_uses::Result {
    for width in [16, 28, 60] {
        println!("{}\n", fill(TEXT, width));
        let first_fit = Options::new(width).wrap_algorithm(WrapAlgorithm::FirstFit).initial_indent("* ");
        println!("{:?}", wrap(TEXT, first_fit.subsequent_indent("  ")));
    }
    print!("{}", indent(&dedent("    a\n      b\n    c\n"), "> "));
    println!("{:?}", textwrap::unfill("a b\nc d\n"));
    Ok(())
}
