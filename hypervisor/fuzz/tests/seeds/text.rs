//! Seeds of fuzz targets, as text that people can read and change.
//!
//! There is a file for each target, `seeds/TARGET.txt`. A line `NAME:` begins a seed. Indented lines below it
//! have its bytes: hexadecimal digits, text in quotes, or `00*48`, a byte with the number of repetitions.
//! Lines that begin with `#` are comments. The tests of both packages of fuzz targets contain this module,
//! and so does the test ring that fuzzes.

/// Parses the seeds in a file and returns them with their names. Returns the first invalid line if there is
/// one.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut seeds: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let invalid = || format!("invalid line of a seed: {line}");
        match (line.strip_suffix(':'), line.strip_prefix(' '), seeds.last_mut()) {
            (_, Some(bytes), Some((_, seed))) => add(seed, bytes).ok_or_else(invalid)?,
            (Some(name), None, _) => seeds.push((name.to_owned(), Vec::new())),
            _ => return Err(invalid()),
        }
    }
    Ok(seeds)
}

/// Adds the bytes of a line to a seed. Returns `None` if the line is invalid.
fn add(seed: &mut Vec<u8>, mut line: &str) -> Option<()> {
    loop {
        line = line.trim_start();
        if line.is_empty() {
            return Some(());
        }
        if let Some(quoted) = line.strip_prefix('"') {
            let (text, rest) = quoted.split_once('"')?;
            seed.extend(text.bytes());
            line = rest;
        } else {
            let (digits, rest) = line.split_once(' ').unwrap_or((line, ""));
            add_digits(seed, digits)?;
            line = rest;
        }
    }
}

/// Adds the bytes of a word such as `0a00ff` or `00*48`.
fn add_digits(seed: &mut Vec<u8>, word: &str) -> Option<()> {
    let (digits, count) = word.split_once('*').unwrap_or((word, "1"));
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes = pairs.map(byte).collect::<Option<Vec<u8>>>()?;
    seed.extend(bytes.repeat(count.parse().ok()?));
    Some(())
}
