//! The command line.

use std::time::Duration;

/// Default port of the server.
const DEFAULT_PORT: u16 = 7777;

/// Role of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Serves on a port.
    Server(u16),
    /// Measures against the server at an address.
    Client(String, Settings),
    /// Measures against a server in the same process.
    Local(Settings),
    /// Ends the server at an address.
    Stop(String),
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetTest {
    /// Bytes per second of one connection, in both directions.
    Throughput,
    /// Round-trip time of messages.
    Latency,
    /// Connections per second, one at a time.
    Connections,
    /// Time to open many connections, and to use all of them.
    Concurrent,
    /// Progress of flows of a fixed size up to a time limit.
    Flows,
}

/// Parameters of the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The measurements, in order.
    pub(crate) tests: Vec<NetTest>,
    /// Duration of each throughput measurement.
    pub(crate) time: Duration,
    /// Number of round trips of each latency measurement.
    pub(crate) rounds: u32,
    /// Number of connections. `None` means the default of the test.
    pub(crate) count: Option<u32>,
    /// Number of bytes of each flow. `None` means the default of the test.
    pub(crate) bytes: Option<u32>,
    /// Time limit of each flow.
    pub(crate) limit: Duration,
    /// True if the client sends the flows to the server.
    pub(crate) is_to_server: bool,
    /// True if all flows start at the same time.
    pub(crate) is_parallel: bool,
    /// Message size in bytes. `None` means the default sizes of the test.
    pub(crate) message: Option<u32>,
    /// True if throughput is measured with `TCP_NODELAY`.
    pub(crate) no_delay: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tests: Vec::new(),
            time: Duration::from_secs(1),
            rounds: 10_000,
            count: None,
            bytes: None,
            limit: Duration::from_secs(60),
            is_to_server: false,
            is_parallel: false,
            message: None,
            no_delay: false,
        }
    }
}

/// Parses the arguments.
pub(crate) fn parse(arguments: &[String]) -> Result<Mode, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server"] => Ok(Mode::Server(DEFAULT_PORT)),
        ["server", port] => port.parse().map(Mode::Server).map_err(|_| format!("`{port}` is no port")),
        ["client", server, rest @ ..] => Ok(Mode::Client(address(server), settings(rest)?)),
        ["local", rest @ ..] => Ok(Mode::Local(settings(rest)?)),
        ["stop", server] => Ok(Mode::Stop(address(server))),
        _ => Err("the role is missing".to_owned()),
    }
}

/// Returns the address, with the default port if it has no port.
fn address(text: &str) -> String {
    // An IPv6 address itself contains colons, but is in brackets if a port follows.
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
            "--bytes" => settings.bytes = Some(number()?),
            "--limit" => settings.limit = Duration::from_millis(number()?.into()),
            "--to-server" => settings.is_to_server = true,
            "--parallel" => settings.is_parallel = true,
            "--message" => settings.message = Some(number()?),
            "--no-delay" => settings.no_delay = true,
            "throughput" => settings.tests.push(NetTest::Throughput),
            "latency" => settings.tests.push(NetTest::Latency),
            "connections" => settings.tests.push(NetTest::Connections),
            "concurrent" => settings.tests.push(NetTest::Concurrent),
            "flows" => settings.tests.push(NetTest::Flows),
            _ => return Err(format!("`{word}` is neither a test nor an option")),
        }
    }
    if settings.tests.is_empty() {
        settings.tests = vec![NetTest::Throughput, NetTest::Latency, NetTest::Connections];
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Mode, NetTest, Settings, parse};

    fn words(line: &str) -> Result<Mode, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_role_is_parsed() {
        assert_eq!(words("server"), Ok(Mode::Server(7777)));
        assert_eq!(words("server 1"), Ok(Mode::Server(1)));
        assert_eq!(words("stop a"), Ok(Mode::Stop("a:7777".to_owned())));
        let settings = Settings {
            tests: vec![NetTest::Latency, NetTest::Flows],
            time: Duration::from_secs(3),
            rounds: 5,
            count: Some(6),
            bytes: Some(8),
            limit: Duration::from_millis(9),
            is_to_server: true,
            is_parallel: true,
            message: Some(7),
            no_delay: true,
        };
        let line = "client 10.0.0.2 --seconds 3 --rounds 5 --count 6 --message 7 --no-delay latency \
                    --bytes 8 --limit 9 --to-server --parallel flows";
        assert_eq!(words(line), Ok(Mode::Client("10.0.0.2:7777".to_owned(), settings)));
        let Ok(Mode::Local(settings)) = words("local") else { panic!("no role") };
        assert_eq!(settings.tests.len(), 3);
    }

    #[test]
    fn default_port_is_added() {
        for (text, expected) in [
            ("a", "a:7777"),
            ("a:1", "a:1"),
            ("1.2.3.4:5", "1.2.3.4:5"),
            ("fe80::1", "[fe80::1]:7777"),
            ("[::1]", "[::1]:7777"),
            ("[::1]:2", "[::1]:2"),
        ] {
            assert_eq!(words(&format!("stop {text}")), Ok(Mode::Stop(expected.to_owned())));
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for line in
            ["", "x", "server x", "client", "client a x", "local --seconds", "local --rounds 0", "stop"]
        {
            assert!(words(line).is_err(), "{line}");
        }
    }
}
