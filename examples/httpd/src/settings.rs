//! Settings from arguments and environment variables.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Settings of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// TCP port; 0 lets the system choose one.
    pub(crate) port: u16,
    /// Maximum number of concurrent connections.
    pub(crate) connections: usize,
    /// Limits of a request.
    pub(crate) limits: RequestLimits,
}

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    /// Maximum size of the request line, in bytes.
    pub(crate) line: usize,
    /// Maximum size of request line and fields, in bytes.
    pub(crate) head: usize,
    /// Maximum size of the body, in bytes.
    pub(crate) body: usize,
    /// Maximum time for a request to arrive, and for a connection to be idle.
    pub(crate) time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let limits =
            RequestLimits { line: 8 << 10, head: 16 << 10, body: 1 << 20, time: Duration::from_secs(10) };
        Self { port: 8080, connections: 1024, limits }
    }
}

impl Settings {
    /// Reads the settings from arguments and variables.
    pub(crate) fn new(
        arguments: &[String],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut settings = Self::default();
        let port = match arguments {
            [] => variable("HTTPD_PORT"),
            [port] => Some(port.clone()),
            _ => return Err("there are too many arguments".to_owned()),
        };
        settings.port = number("the port", port, 0..=u16::MAX, settings.port)?;
        let (connections, limits) = (settings.connections, settings.limits);
        settings.connections =
            number("HTTPD_CONNECTIONS", variable("HTTPD_CONNECTIONS"), 1..=60_000, connections)?;
        settings.limits.body = number("HTTPD_BODY", variable("HTTPD_BODY"), 0..=usize::MAX, limits.body)?;
        let milliseconds = number("HTTPD_TIMEOUT", variable("HTTPD_TIMEOUT"), 1..=86_400_000_u64, 10_000)?;
        settings.limits.time = Duration::from_millis(milliseconds);
        Ok(settings)
    }
}

/// Parses a number and checks its range. Returns `default` if there is no text.
fn number<T: FromStr + PartialOrd + Display>(
    what: &str,
    text: Option<String>,
    range: RangeInclusive<T>,
    default: T,
) -> Result<T, String> {
    let Some(text) = text else { return Ok(default) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number
        .ok_or_else(|| format!("{what} is `{text}`, not a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Settings;

    #[test]
    fn arguments_override_variables() {
        let variable = |name: &str| match name {
            "HTTPD_PORT" => Some("1".to_owned()),
            "HTTPD_TIMEOUT" => Some("50".to_owned()),
            _ => None,
        };
        let settings = Settings::new(&["2".to_owned()], variable).unwrap();
        assert_eq!((settings.port, settings.limits.time), (2, Duration::from_millis(50)));
        assert_eq!(Settings::new(&[], variable).unwrap().port, 1);
        assert_eq!(Settings::new(&[], |_| None), Ok(Settings::default()));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(Settings::new(&["x".to_owned()], |_| None).unwrap_err().contains("`x`"));
        assert!(Settings::new(&["1".to_owned(), "2".to_owned()], |_| None).is_err());
        assert!(Settings::new(&[], |_| Some("0".to_owned())).unwrap_err().contains("HTTPD_CONNECTIONS"));
    }
}
