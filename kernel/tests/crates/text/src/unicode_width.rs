//! Measures how many columns text takes.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub fn run() -> crate_uses::Result {
    for text in ["hello", "ｈｅｌｌｏ", "こんにちは", "👩‍👩‍👧‍👦", "e\u{301}", "\u{200b}", "ﷺ", ""] {
        println!("{text:?} {} {}", text.width(), text.width_cjk());
    }
    let widths: Vec<_> = ['a', '語', '\0', '\u{ad}', '±'].map(|character| (character.width(), character.width_cjk())).into();
    println!("{widths:?}");
    Ok(())
}
