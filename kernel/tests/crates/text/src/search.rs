//! Searching of texts and bytes.

use aho_corasick::{AhoCorasick, MatchKind};
use bstr::{BStr, ByteSlice};
use fst::automaton::{Automaton, Str, Subsequence};
use fst::{IntoStreamer, Map, MapBuilder, Streamer};
use memchr::{memchr_iter, memchr2, memchr3, memmem, memrchr};
use regex::{Captures, Regex, RegexSet, bytes};

/// Finds and replaces several words at once.
pub fn aho_corasick() -> crate_uses::Result {
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

/// Treats bytes as text that may not be UTF-8.
pub fn bstr() -> crate_uses::Result {
    let bytes = b"one \xFFtwo\nthree \xE2\x98\x83\r\nfour";
    for line in bytes.lines() {
        println!("{:?} {} characters", BStr::new(line), line.chars().count());
    }
    println!("{:?}", bytes.find("three"));
    println!("{}", bytes.to_str_lossy().replace('\n', "|").replace('\r', ""));
    println!(
        "{:?}",
        bytes.fields().map(|field| field.to_uppercase().as_bstr().to_string()).collect::<Vec<_>>()
    );
    println!("{:?}", bytes.graphemes().filter(|grapheme| grapheme.len() > 1).collect::<Vec<_>>());
    Ok(())
}

/// Builds an ordered map as a transducer, and searches it.
pub fn fst() -> crate_uses::Result {
    let mut builder = MapBuilder::memory();
    for number in 0..2000_u64 {
        builder.insert(format!("key-{number:05}"), number * number)?;
    }
    let bytes = builder.into_inner()?;
    println!("{} bytes, {}", bytes.len(), crate_uses::digest(&bytes));
    let map = Map::new(bytes)?;
    println!("{:?} {:?}", map.get("key-00044"), map.get("key-99999"));
    let mut range = map.range().ge("key-01997").into_stream();
    while let Some((key, value)) = range.next() {
        println!("{} {value}", str::from_utf8(key)?);
    }
    let mut found = map.search(Subsequence::new("777")).into_stream();
    while let Some((key, value)) = found.next() {
        println!("{} {value}", str::from_utf8(key)?);
    }
    println!("{}", map.search(Str::new("key-01").starts_with()).into_stream().into_str_keys()?.len());
    Ok(())
}

/// Searches bytes.
pub fn memchr() -> crate_uses::Result {
    use memchr::memchr;

    let bytes: Vec<u8> = crate_uses::numbers(7).take(10_000).map(|number| number as u8).collect();
    for byte in [0, 1, 17, 255] {
        let (first, last) = (memchr(byte, &bytes), memrchr(byte, &bytes));
        println!("{byte}: {first:?} {last:?} {} times", memchr_iter(byte, &bytes).count());
    }
    println!("{:?} {:?}", memchr2(3, 4, &bytes), memchr3(8, 9, 10, &bytes[500..]));
    let text = "the quick brown fox jumps over the lazy dog ".repeat(100);
    let finder = memmem::Finder::new("lazy dog the");
    println!("{:?} {}", finder.find(text.as_bytes()), finder.find_iter(text.as_bytes()).count());
    println!("{:?} {:?}", memmem::rfind(text.as_bytes(), b"fox"), memmem::find(text.as_bytes(), b"cat"));
    Ok(())
}

/// Matches, captures and replaces by regular expressions.
pub fn regex() -> crate_uses::Result {
    let date = Regex::new(r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>\d\d)")?;
    let text = "from 2024-02-29 to 2025-11-30, not 2025-13-01";
    for captures in date.captures_iter(text) {
        println!("{} {} {}", &captures["year"], &captures["month"], &captures["day"]);
    }
    println!("{}", date.replace_all(text, "$day.$month.$year"));
    let words = Regex::new(r"(?i)\b\p{Lu}\w+")?;
    println!("{:?}", words.find_iter("Äpfel und ÖL, straße").map(|found| found.as_str()).collect::<Vec<_>>());
    let longer = |captures: &Captures<'_>| format!("<{}>", captures[0].len());
    println!("{}", Regex::new("[a-z]+")?.replace_all("ab abc a", longer));
    println!("{:?}", Regex::new(r"\s*,\s*")?.split("a , b,c ,d").collect::<Vec<_>>());
    let set = RegexSet::new(["^a", "b$", "[0-9]"])?;
    println!("{:?}", set.matches("a1b").into_iter().collect::<Vec<_>>());
    println!("{:?}", bytes::Regex::new(r"(?-u)\xff+")?.find(b"a\xff\xffb").map(|found| found.range()));
    println!("{}", Regex::new("(a").unwrap_err());
    Ok(())
}
