//! Unicode's forms, segments and widths.

use unicode_normalization::char::{canonical_combining_class, compose, is_combining_mark};
use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Normalises Unicode text.
pub fn unicode_normalization() -> crate_uses::Result {
    for text in ["Å", "Å", "ﬁﬃ²", "가각", "q\u{307}\u{323}", "①㌔"] {
        let forms: [String; 4] =
            [text.nfc().collect(), text.nfd().collect(), text.nfkc().collect(), text.nfkd().collect()];
        println!(
            "{} {}",
            is_nfc(text),
            forms.each_ref().map(|form| form.escape_unicode().to_string()).join(" ")
        );
    }
    println!("{:?} {}", compose('A', '\u{30a}'), canonical_combining_class('\u{323}'));
    let plain: String =
        "crème brûlée à l'été".nfd().filter(|character| !is_combining_mark(*character)).collect();
    println!("{plain}");
    Ok(())
}

/// Splits text into graphemes, words and sentences.
pub fn unicode_segmentation() -> crate_uses::Result {
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

/// Measures how many columns text takes.
pub fn unicode_width() -> crate_uses::Result {
    for text in ["hello", "ｈｅｌｌｏ", "こんにちは", "👩‍👩‍👧‍👦", "e\u{301}", "\u{200b}", "ﷺ", ""]
    {
        println!("{text:?} {} {}", text.width(), text.width_cjk());
    }
    let widths: Vec<_> =
        ['a', '語', '\0', '\u{ad}', '±'].map(|character| (character.width(), character.width_cjk())).into();
    println!("{widths:?}");
    Ok(())
}
