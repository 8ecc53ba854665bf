//! Lint: code, comments and documents must not contain the words that the glossary lists as not used.

use std::fmt;

/// The file that lists the words, from the repository's root.
pub(super) const GLOSSARY: &str = "docs/glossary.md";

/// Heading of the list in the glossary.
const HEADING: &str = "## Words not used";

/// Files that are not searched, because they must name the words.
const EXCEPTED: [&str; 2] = ["xtask/dev/src/lint/words.rs", GLOSSARY];

/// A word or phrase that must not be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Banned {
    /// The word. In lower case, it matches any case. With `_` at its end, it matches the beginning of an
    /// identifier.
    word: String,
    /// The word to write instead.
    instead: String,
}

/// An occurrence of a banned word.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    file: String,
    line: usize,
    word: String,
    instead: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, word, instead } = self;
        write!(out, "{file}:{line}: \"{word}\" is not used here ({GLOSSARY}): {instead}")
    }
}

/// Returns the list in the glossary: the rows of the table after [`HEADING`].
pub(super) fn banned(glossary: &str) -> Vec<Banned> {
    let table = glossary.lines().skip_while(|line| *line != HEADING);
    // Skips the heading of the table and the line below it.
    let rows = table.filter(|line| line.starts_with('|')).skip(2);
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (word, instead) = (cells.next()?, cells.next()?);
        Some(Banned { word: word.to_owned(), instead: instead.to_owned() })
    })
    .collect()
}

/// Returns the occurrences of the banned words in a file.
pub(super) fn check(file: &str, text: &str, banned: &[Banned]) -> Vec<Violation> {
    if EXCEPTED.iter().any(|excepted| file.starts_with(excepted)) {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines());
    lines
        .flat_map(|(number, line)| {
            let lower_case = line.to_lowercase();
            let matches = move |banned: &&Banned| {
                let is_any_case = banned.word.chars().all(|letter| !letter.is_uppercase());
                contains(if is_any_case { &lower_case } else { line }, &banned.word)
            };
            banned.iter().filter(matches).map(move |banned| Violation {
                file: file.to_owned(),
                line: number,
                word: banned.word.clone(),
                instead: banned.instead.clone(),
            })
        })
        .collect()
}

/// Returns true if a line contains a word, not only as a part of a longer word. `_` separates words.
fn contains(line: &str, word: &str) -> bool {
    let is_letter = |text: Option<char>| text.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !is_letter(before) && (word.ends_with('_') || !is_letter(after))
    })
}

#[cfg(test)]
mod tests {
    use super::{Banned, banned, check, contains};

    const SAMPLE: &str = "# G\n\n| a | b |\n| --- | --- |\n| term | meaning |\n\n## Words not used\n\ntext\n\n\
                          | word | instead |\n| --- | --- |\n| nobody | no thread |\n| MOST_ | MAX_ |\n";

    #[test]
    fn glossary_table_behind_the_heading_is_the_list() {
        let list = banned(SAMPLE);
        let row = |word: &str, instead: &str| Banned { word: word.into(), instead: instead.into() };
        assert_eq!(list, [row("nobody", "no thread"), row("MOST_", "MAX_")]);
    }

    #[test]
    fn committed_glossary_has_a_list() {
        let list = banned(include_str!("../../../../docs/glossary.md"));
        assert!(list.len() > 10, "{list:?}");
    }

    #[test]
    fn words_match_whole_words_and_identifier_parts() {
        for (line, word, expected) in [
            ("nobody waits", "nobody", true),
            ("const nobody_left: u8", "nobody", true),
            ("nobodyelse", "nobody", false),
            ("const ALMOST_DONE: u8", "MOST_", false),
            ("const MOST_ROUNDS: u32", "MOST_", true),
            ("it makes no sense.", "makes no sense", true),
        ] {
            assert_eq!(contains(line, word), expected, "{line} / {word}");
        }
    }

    #[test]
    fn violation_names_file_line_and_replacement() {
        let list = banned(SAMPLE);
        let found = check("a/src/b.rs", "//! A.\n// Nobody waits.\n", &list);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("a/src/b.rs:2: \"nobody\""), "{}", found[0]);
        assert!(check(super::GLOSSARY, "nobody", &list).is_empty());
        assert!(check("a/src/b.rs", "mod most_recent;", &list).is_empty());
        assert_eq!(check("a/src/b.rs", "const MOST_RECENT: u8 = 0;", &list).len(), 1);
    }
}
