//! URLs of the schemes `http` and `https` (RFC 3986, and RFC 9110, section 4.2).

use crate::FetchError;

/// A URL, split into the parts for connection and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// True if the scheme is `https`.
    pub(crate) secure: bool,
    /// Host name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) path: String,
}

impl Url {
    /// Parses a URL. Drops the fragment.
    pub(crate) fn parse(text: &str) -> Result<Self, FetchError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad(text, "it names no scheme"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(bad(text, "its scheme is neither http nor https")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(bad(text, "names of users are not for URLs"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(text, "it has characters that must be written as %.."));
        }
        let (host, port) = host_and_port(authority).ok_or_else(|| bad(text, "its host or port is none"))?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { secure, host: host.to_owned(), port, path })
    }

    /// Resolves the location of a redirect, which may be relative to this URL.
    pub(crate) fn join(&self, location: &str) -> Result<Self, FetchError> {
        let scheme = if self.secure { "https" } else { "http" };
        let start = format!("{scheme}://{}", self.authority());
        if location.contains("://") {
            Self::parse(location)
        } else if let Some(authority) = location.strip_prefix("//") {
            Self::parse(&format!("{scheme}://{authority}"))
        } else if location.starts_with('/') {
            Self::parse(&format!("{start}{location}"))
        } else {
            let path = self.path.split('?').next().unwrap_or_default();
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            Self::parse(&format!("{start}{folder}/{location}"))
        }
    }

    /// Returns the host, and the port unless it is the scheme's default, as in the `Host` field.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.secure { 443 } else { 80 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

fn bad(text: &str, problem: &str) -> FetchError {
    FetchError::Url(format!("`{text}` cannot be fetched: {problem}"))
}

/// Splits host and port. An IPv6 address must be in brackets.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return None,
        Some("") => None,
        Some(digits) => Some(digits.parse().ok()?),
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::Url;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn show(url: &Url) -> String {
        format!("{} {} {} {}", url.secure, url.host, url.port, url.path)
    }

    #[test]
    fn urls_are_split() {
        for (text, expected) in [
            ("http://a", "false a 80 /"),
            ("HTTPS://a.b/c/d?e=f#g", "true a.b 443 /c/d?e=f"),
            ("http://a:8080?b", "false a 8080 /?b"),
            ("http://[::1]:1/", "false ::1 1 /"),
            ("http://a:/", "false a 80 /"),
        ] {
            assert_eq!(show(&url(text)), expected, "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for text in
            ["", "a", "ftp://a", "http://", "http://:80", "http://a:x", "http://a:65536", "http://[::1"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        for text in ["http://a/b c", "http://a/\r\nX: y", "http://user@a", "http://[::1]x"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn relative_locations_are_resolved() {
        let start = url("https://a:1/b/c?d/e");
        for (location, expected) in [
            ("http://x/y", "false x 80 /y"),
            ("//x/y", "true x 443 /y"),
            ("/y", "true a 1 /y"),
            ("y", "true a 1 /b/y"),
        ] {
            assert_eq!(show(&start.join(location).unwrap()), expected, "{location}");
        }
    }

    #[test]
    fn authority_omits_default_port() {
        assert_eq!(url("http://a:80").authority(), "a");
        assert_eq!(url("https://a:80").authority(), "a:80");
        assert_eq!(url("http://[::1]:8080").authority(), "[::1]:8080");
    }
}
