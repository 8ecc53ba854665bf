//! Responses (RFC 9112, section 4).

use std::io::{self, Write};
use std::time::SystemTime;

use crate::date;
use crate::status::Status;

/// Block of bytes that a `Filler` repeats.
static FILLER_BLOCK: [u8; 64 << 10] = [b'x'; 64 << 10];

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: Status,
    /// Value of the `Allow` field, for unsupported methods.
    pub(crate) allow: Option<&'static str>,
    pub(crate) content: Content,
    /// True if the program exits after this response.
    pub(crate) exits: bool,
}

/// Content of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(String),
    Bytes(Vec<u8>),
    /// This many arbitrary bytes.
    Filler(u64),
}

impl Content {
    fn size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Filler(size) => return *size,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    fn media_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "text/plain; charset=utf-8",
            Self::Bytes(_) | Self::Filler(_) => "application/octet-stream",
        }
    }
}

impl Response {
    pub(crate) fn new(content: Content) -> Self {
        Self { status: Status::Ok, allow: None, content, exits: false }
    }

    /// Returns a response whose content is the text of the status.
    pub(crate) fn status_only(status: Status) -> Self {
        let text = format!("{} {}\n", status.code(), status.reason());
        Self { status, ..Self::new(Content::Text(text)) }
    }

    /// Sends the response, without content for HEAD (RFC 9110, section 9.3.2).
    pub(crate) fn send(&self, mut to: impl Write, keep_alive: bool, has_content: bool) -> io::Result<()> {
        let mut bytes = self.head(keep_alive).into_bytes();
        match &self.content {
            _ if !has_content => to.write_all(&bytes),
            Content::Filler(size) => {
                to.write_all(&bytes)?;
                write_filler(to, *size)
            }
            // Head and content are one write, so that a small response is one TCP segment.
            Content::Text(text) => {
                bytes.extend(text.as_bytes());
                to.write_all(&bytes)
            }
            Content::Bytes(content) => {
                bytes.extend(content);
                to.write_all(&bytes)
            }
        }
    }

    fn head(&self, keep_alive: bool) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let lines = [
            Some(format!("HTTP/1.1 {} {}", self.status.code(), self.status.reason())),
            Some(format!("Date: {}", date::format(now.as_secs()))),
            Some(format!("Content-Type: {}", self.content.media_type())),
            Some(format!("Content-Length: {}", self.content.size())),
            self.allow.map(|methods| format!("Allow: {methods}")),
            Some(format!("Connection: {}", if keep_alive { "keep-alive" } else { "close" })),
        ];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        lines.join("\r\n") + "\r\n\r\n"
    }
}

fn write_filler(mut to: impl Write, size: u64) -> io::Result<()> {
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).map_or(FILLER_BLOCK.len(), |left| left.min(FILLER_BLOCK.len()));
        to.write_all(FILLER_BLOCK.split_at(part).0)?;
        left -= u64::try_from(part).unwrap_or(left);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Content, FILLER_BLOCK, Response};
    use crate::status::Status;

    fn send_to_string(response: &Response, keep_alive: bool, has_content: bool) -> String {
        let mut bytes = Vec::new();
        response.send(&mut bytes, keep_alive, has_content).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn head_describes_content() {
        let response = Response { allow: Some("GET"), ..Response::status_only(Status::MethodNotAllowed) };
        let text = send_to_string(&response, false, true);
        assert!(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\nDate: "), "{text}");
        let rest = "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 23\r\nAllow: GET\r\n\
            Connection: close\r\n\r\n405 Method Not Allowed\n";
        assert!(text.ends_with(rest), "{text}");
        assert!(send_to_string(&response, true, false).ends_with("Connection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn filler_has_requested_size() {
        for size in
            [0, 1, FILLER_BLOCK.len() - 1, FILLER_BLOCK.len(), FILLER_BLOCK.len() + 1, 3 * FILLER_BLOCK.len()]
        {
            let response = Response::new(Content::Filler(size.try_into().unwrap()));
            let text = send_to_string(&response, true, true);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {size}\r\n")), "{head}");
            assert_eq!(body.len(), size);
        }
    }
}
