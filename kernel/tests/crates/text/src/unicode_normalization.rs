//! Normalises Unicode text.

use unicode_normalization::char::{canonical_combining_class, compose, is_combining_mark};
use unicode_normalization::{UnicodeNormalization, is_nfc};

pub fn run() -> crate_uses::Result {
    for text in ["Å", "Å", "ﬁﬃ²", "가각", "q\u{307}\u{323}", "①㌔"] {
        let forms: [String; 4] =
            [text.nfc().collect(), text.nfd().collect(), text.nfkc().collect(), text.nfkd().collect()];
        println!("{} {}", is_nfc(text), forms.each_ref().map(|form| form.escape_unicode().to_string()).join(" "));
    }
    println!("{:?} {}", compose('A', '\u{30a}'), canonical_combining_class('\u{323}'));
    let plain: String = "crème brûlée à l'été".nfd().filter(|character| !is_combining_mark(*character)).collect();
    println!("{plain}");
    Ok(())
}
