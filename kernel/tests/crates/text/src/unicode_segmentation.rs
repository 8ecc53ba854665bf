//! Splits text into graphemes, words and sentences.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

pub fn run() -> crate_uses::Result {
    let text = "a\u{310}e\u{301}o\u{308}\u{332} 🇩🇪👩‍👩‍👧‍👦! The quick (\"brown\") fox can't jump 32.3 feet, right? Mr. Fox can.";
    println!("{:?}", text.graphemes(true).take(8).collect::<Vec<_>>());
    println!("{:?}", text.unicode_words().collect::<Vec<_>>());
    println!("{:?}", text.split_word_bound_indices().filter(|(_, word)| word.len() > 3).collect::<Vec<_>>());
    println!("{:?}", text.unicode_sentences().collect::<Vec<_>>());
    let mut cursor = GraphemeCursor::new(0, text.len(), true);
    println!("{:?} {:?}", cursor.next_boundary(text, 0), cursor.next_boundary(text, 0));
    println!("{}", text.graphemes(true).rev().collect::<String>());
    Ok(())
}
