//! The command line.

use std::time::Duration;

/// Default port of the server.
const DEFAULT_PORT: u16 = 7777;

/// What this program is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves at a port.
    Server(u16),
    /// Measures against the server at an address.
    Client(String, Settings),
    /// Measures against itself.
    Local(Settings),
    /// Ends the server at an address.
    Stop(String),
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Throughput,
    Latency,
    Connections,
    Concurrent,
}

/// What is measured, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The measurements, in order.
    pub(crate) tests: Vec<Test>,
    /// How long each measurement of throughput sends.
    pub(crate) time: Duration,
    /// How many messages go there and back for a latency.
    pub(crate) rounds: u32,
    /// How many connections; each test has its own idea.
    pub(crate) count: Option<u32>,
    /// The only size of message.
    pub(crate) message: Option<u32>,
    /// Whether streams of messages send at once what is written.
    pub(crate) no_delay: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tests: Vec::new(),
            time: Duration::from_secs(1),
            rounds: 10_000,
            count: None,
            message: None,
            no_delay: false,
        }
    }
}

/// Understands the arguments.
pub(crate) fn parse(arguments: &[String]) -> Result<Role, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server"] => Ok(Role::Server(DEFAULT_PORT)),
        ["server", port] => port.parse().map(Role::Server).map_err(|_| format!("`{port}` is no port")),
        ["client", server, rest @ ..] => Ok(Role::Client(address(server), settings(rest)?)),
        ["local", rest @ ..] => Ok(Role::Local(settings(rest)?)),
        ["stop", server] => Ok(Role::Stop(address(server))),
        _ => Err("it is not said what to be".to_owned()),
    }
}

/// An address with a port: the usual one, if there is none.
fn address(text: &str) -> String {
    // An address of version 6 has colons of its own, and is in brackets if a port follows.
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    match has_port {
        true => text.to_owned(),
        false if text.contains(':') && !text.starts_with('[') => format!("[{text}]:{DEFAULT_PORT}"),
        false => format!("{text}:{DEFAULT_PORT}"),
    }
}

fn settings(arguments: &[&str]) -> Result<Settings, String> {
    let mut settings = Settings::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || match words.next().map(|word| word.parse::<u32>()) {
            Some(Ok(number)) if number > 0 => Ok(number),
            _ => Err(format!("`{word}` needs a number")),
        };
        match *word {
            "--seconds" => settings.time = Duration::from_secs(number()?.into()),
            "--rounds" => settings.rounds = number()?,
            "--count" => settings.count = Some(number()?),
            "--message" => settings.message = Some(number()?),
            "--no-delay" => settings.no_delay = true,
            "throughput" => settings.tests.push(Test::Throughput),
            "latency" => settings.tests.push(Test::Latency),
            "connections" => settings.tests.push(Test::Connections),
            "concurrent" => settings.tests.push(Test::Concurrent),
            _ => return Err(format!("`{word}` is neither a test nor an option")),
        }
    }
    if settings.tests.is_empty() {
        settings.tests = vec![Test::Throughput, Test::Latency, Test::Connections];
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Role, Settings, Test, parse};

    fn words(line: &str) -> Result<Role, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_role_is_understood() {
        assert_eq!(words("server"), Ok(Role::Server(7777)));
        assert_eq!(words("server 1"), Ok(Role::Server(1)));
        assert_eq!(words("stop a"), Ok(Role::Stop("a:7777".to_owned())));
        let settings = Settings {
            tests: vec![Test::Latency],
            time: Duration::from_secs(3),
            rounds: 5,
            count: Some(6),
            message: Some(7),
            no_delay: true,
        };
        let line = "client 10.0.0.2 --seconds 3 --rounds 5 --count 6 --message 7 --no-delay latency";
        assert_eq!(words(line), Ok(Role::Client("10.0.0.2:7777".to_owned(), settings)));
        let Ok(Role::Local(settings)) = words("local") else { panic!("it is no role") };
        assert_eq!(settings.tests.len(), 3);
    }

    #[test]
    fn a_port_may_be_left_out() {
        for (text, expected) in [
            ("a", "a:7777"),
            ("a:1", "a:1"),
            ("1.2.3.4:5", "1.2.3.4:5"),
            ("fe80::1", "[fe80::1]:7777"),
            ("[::1]", "[::1]:7777"),
            ("[::1]:2", "[::1]:2"),
        ] {
            assert_eq!(words(&format!("stop {text}")), Ok(Role::Stop(expected.to_owned())));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in
            ["", "x", "server x", "client", "client a x", "local --seconds", "local --rounds 0", "stop"]
        {
            assert!(words(line).is_err(), "{line}");
        }
    }
}
