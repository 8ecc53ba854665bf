//! Matches, captures and replaces by regular expressions.

use regex::{Captures, Regex, RegexSet, bytes};

pub fn run() -> crate_uses::Result {
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
