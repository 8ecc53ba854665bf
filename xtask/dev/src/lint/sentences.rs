//! Rules of language for comments: the beginning of a doc comment, and phrases that make sentences hard to
//! read.
//!
//! Comments that have to be read twice mostly have clauses within clauses. Such clauses often start with
//! phrases like `of which`, `what is`, `is none` or `as of`. A doc comment is an entry of a reference: it
//! must begin with a noun phrase, or with a verb in the third person.

use super::rules::Violation;

/// Phrases that comments must not have, each with advice for another wording.
const PHRASES: [(&str, &str); 10] = [
    ("of which", "begin another sentence"),
    ("what is", "name it by a noun"),
    ("what are", "name them by a noun"),
    ("what was", "name it by a noun"),
    ("what were", "name them by a noun"),
    ("what has", "name it by a noun"),
    ("what have", "name them by a noun"),
    ("is none", "\"is not one\", or say what it is"),
    ("are none", "\"are not\", or say what they are"),
    ("as of", "\"of\", \"since\" or \"as\""),
];

/// Words with which a doc comment must not begin.
const BEGINNINGS: [&str; 6] = ["What", "Whether", "That", "Those", "Which", "Has the"];

/// Returns the violations in the comments of a file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let (mut found, mut is_code, mut previous) = (Vec::new(), false, "");
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let marker = marker(line);
        let comment = line[marker.len()..].trim_start();
        is_code = !marker.is_empty() && (is_code ^ comment.starts_with("```"));
        if !marker.is_empty() && !is_code {
            let begins = marker != "//" && previous != marker;
            let message = if begins { beginning(comment) } else { None }.or_else(|| phrase(comment));
            found.extend(message.map(|message| Violation::new(file, number, message)));
        }
        previous = marker;
    }
    found
}

/// Returns the characters that make a line a comment, or an empty text if the line is not a comment.
fn marker(line: &str) -> &str {
    ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or("")
}

/// Returns a message if a doc comment begins with one of [`BEGINNINGS`].
fn beginning(comment: &str) -> Option<String> {
    let word = BEGINNINGS.into_iter().find(|word| {
        let rest = comment.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })?;
    Some(format!("a doc comment begins with a noun, or a verb in the third person, not with \"{word}\""))
}

/// Returns a message if a line has one of the phrases outside of code quotes.
fn phrase(comment: &str) -> Option<String> {
    let text: String = comment.split('`').step_by(2).collect::<Vec<_>>().join("``").to_lowercase();
    let (phrase, instead) = PHRASES.into_iter().find(|(phrase, _)| {
        text.match_indices(phrase).any(|(start, _)| {
            let (before, after) = (&text[..start], &text[start + phrase.len()..]);
            let is_whole =
                !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
            is_whole && !(phrase.ends_with("none") && before.ends_with("there "))
        })
    })?;
    Some(format!("\"{phrase}\" makes a sentence hard to read: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines(text: &str) -> Vec<String> {
        check("a.rs", text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn doc_comments_begin_with_nouns_or_verbs() {
        for (text, count) in [
            ("/// Whether it runs.\nfn a() {}\n", 1),
            ("//! What it does.\n", 1),
            ("/// Returns true if it runs.\n/// What follows is a second line.\nfn a() {}\n", 0),
            ("// What follows is no doc comment.\n", 0),
            ("/// Whatever\nfn a() {}\n/// Thatch\nfn b() {}\n", 0),
        ] {
            assert_eq!(lines(text).len(), count, "{text}: {:?}", lines(text));
        }
    }

    #[test]
    fn phrases_are_found_in_prose_only() {
        for (text, count) in [
            ("// The list, of which the first one counts.\n", 1),
            ("// It knows what is free.\n", 1),
            ("// `None` if there is none.\n", 0),
            ("// The object, if it is none.\n", 1),
            ("// See `what is`.\n", 0),
            ("//! ```\n//! // what is free\n//! ```\n", 0),
            ("let a = \"what is this\";\n", 0),
            ("// Somewhat is whatever.\n", 0),
        ] {
            assert_eq!(lines(text).len(), count, "{text}: {:?}", lines(text));
        }
    }
}
