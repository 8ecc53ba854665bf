//! The program's arguments.

/// Settings of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Number of repetitions, threads or blocks, depending on the check.
    pub(crate) number: Option<usize>,
    /// Expected number of CPUs.
    pub(crate) cpus: Option<usize>,
    /// Duration of a check that has no end of its own, in seconds.
    pub(crate) seconds: Option<u64>,
}

/// Parses the name of the check and its settings.
pub(crate) fn parse(arguments: &[String]) -> Result<(&str, Settings), String> {
    let (name, rest) = arguments.split_first().ok_or("which check?")?;
    let mut settings = Settings::default();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--cpus-expected" => settings.cpus = Some(number(words.next())?),
            "--seconds" => settings.seconds = Some(number(words.next())?),
            _ => settings.number = Some(number(Some(word))?),
        }
    }
    Ok((name, settings))
}

fn number<T: std::str::FromStr>(word: Option<&String>) -> Result<T, String> {
    let word = word.ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::{Settings, parse};

    #[test]
    fn name_and_settings_are_parsed() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            parse(&words).map(|(name, settings)| (name.to_owned(), settings))
        };
        assert_eq!(parse(&["a"]).unwrap(), ("a".to_owned(), Settings::default()));
        let settings = Settings { number: Some(5), cpus: Some(2), seconds: Some(7) };
        let words = ["a", "--cpus-expected", "2", "5", "--seconds", "7"];
        assert_eq!(parse(&words).unwrap(), ("a".to_owned(), settings));
        assert!(parse(&[]).is_err());
        assert!(parse(&["a", "--seconds"]).is_err());
        assert!(parse(&["a", "--seconds", "x"]).is_err());
        assert!(parse(&["a", "-1"]).is_err());
    }
}
