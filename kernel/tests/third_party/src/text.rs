//! serde_json, regex and sha2: work in a single thread, with much memory.

use std::fmt::Write;

use regex::{Captures, Regex, RegexSet};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha512};

use crate::{TestResult, digest, ensure, numbers};

/// Minimum size of the document in bytes.
const DOCUMENT: usize = 3 << 20;

/// Parses a document of 3 MiB.
pub(crate) fn serde_json() -> TestResult {
    let text = document().map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let items = value["items"].as_array().ok_or("the items are no array")?;
    let ids: u64 = items.iter().filter_map(|item| item["id"].as_u64()).sum();
    let halves: f64 = items.iter().filter_map(|item| item["half"].as_f64()).sum();
    let names: Vec<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    ensure(names.len() == items.len(), || "there are items without a name".to_owned())?;
    let broken = serde_json::from_str::<Value>(&text[..text.len() / 2]);
    ensure(broken.is_err(), || "half of the document was taken for a whole one".to_owned())?;
    let again = serde_json::to_string(&value).map_err(|error| error.to_string())?;
    Ok(digest(&(text.len(), items.len(), ids, halves.to_bits(), names, again)))
}

/// Builds a document of numbers, strings with all kinds of characters, booleans, null, arrays and objects.
fn document() -> Result<String, std::fmt::Error> {
    let mut text = String::from(r#"{"items":["#);
    for (index, number) in numbers(7).enumerate() {
        let (half, odd) = (f64::from(number) / 2.0, number % 2 == 1);
        write!(text, r#"{{"id":{index},"half":{half},"odd":{odd},"none":null,"#)?;
        write!(text, r#""name":"\"{number:x}\" \u00e9 ü 🦀\n","parts":[{},-{index}]}}"#, number >> 16)?;
        if text.len() >= DOCUMENT {
            break;
        }
        text.push(',');
    }
    text.push_str("]}");
    Ok(text)
}

/// Searches and replaces in lines like those of a log.
pub(crate) fn regex() -> TestResult {
    let mut log = String::new();
    for (index, number) in numbers(3).take(2_000).enumerate() {
        let address = number.to_be_bytes().map(|byte| byte.to_string()).join(".");
        let word = ["Straße", "naïve", "plain", "δοκιμή"][index % 4];
        writeln!(log, "2024-01-{:02} {address} {word} status={}", index % 31 + 1, number % 600)
            .map_err(|error| error.to_string())?;
    }
    let compile = |pattern| Regex::new(pattern).map_err(|error| error.to_string());
    let line =
        compile(r"(?m)^(?<date>\d{4}-\d\d-\d\d) (?<address>\d+(?:\.\d+){3}) (?<word>\p{L}+) status=(\d+)$")?;
    let found: Vec<_> =
        line.captures_iter(&log).map(|line| (line["word"].to_owned(), line[4].to_owned())).collect();
    ensure(found.len() == 2_000, || format!("{} lines were understood", found.len()))?;
    let swapped =
        line.replace_all(&log, |line: &Captures<'_>| format!("{} {}", &line["address"], &line["date"]));
    let words = compile(r"(?i)\b[[:alpha:]]*ß[a-z]*\b|\p{Greek}+")?.find_iter(&log).count();
    let set = RegexSet::new([r"status=5\d\d", r"(a|b)*c", r"\.255 "]).map_err(|error| error.to_string())?;
    let kinds: Vec<usize> = log.lines().map(|line| set.matches(line).iter().sum()).collect();
    Ok(digest(&(found, swapped, words, kinds)))
}

/// Hashes the test vector of FIPS 180-4, and a mebibyte.
pub(crate) fn sha2() -> TestResult {
    let abc = hex(&Sha256::digest(b"abc"));
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    ensure(abc == expected, || format!("the digest of abc is {abc}"))?;
    let bytes: Vec<u8> = numbers(9).take(1 << 18).flat_map(u32::to_le_bytes).collect();
    let mut in_pieces = Sha512::new();
    bytes.chunks(1000).for_each(|piece| in_pieces.update(piece));
    let (whole, in_pieces) = (hex(&Sha512::digest(&bytes)), hex(&in_pieces.finalize()));
    ensure(whole == in_pieces, || format!("{whole} as a whole, {in_pieces} in pieces"))?;
    Ok(hex(&Sha256::digest(&bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
