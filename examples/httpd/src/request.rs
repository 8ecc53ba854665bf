//! Parses the head of a request: request line and fields (RFC 9112, sections 3 and 5).

use crate::status::Status;

/// Maximum number of fields of a request.
const MAX_FIELDS: usize = 100;

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    /// The method, which is case-sensitive.
    pub(crate) method: String,
    /// The path, without the query.
    pub(crate) path: String,
    /// True if the connection persists after the response.
    pub(crate) keep_alive: bool,
    /// True if the client expects `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    /// Framing of the body.
    pub(crate) length: BodyLength,
}

/// Framing of a body (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// `Content-Length`, or 0 without it.
    Known(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// A field: its name in lower case, and its value.
type Field<'a> = (String, &'a str);

impl HttpRequest {
    /// Parses a head, up to and including the empty line.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Status> {
        let text = str::from_utf8(head).map_err(|_| Status::BadRequest)?;
        let text = text.strip_suffix("\r\n\r\n").ok_or(Status::BadRequest)?;
        let mut lines = text.split("\r\n");
        let (method, target, minor) = request_line(lines.next().unwrap_or_default())?;
        let fields: Vec<Field<'_>> = lines.map(field).collect::<Result<_, _>>()?;
        if fields.len() > MAX_FIELDS {
            return Err(Status::RequestHeaderFieldsTooLarge);
        }
        check_host(&fields, minor)?;
        Ok(Self {
            method: method.to_owned(),
            path: path(method, target)?.to_owned(),
            keep_alive: keep_alive(&fields, minor),
            expects_continue: expects_continue(&fields, minor)?,
            length: length(&fields, minor)?,
        })
    }
}

/// Parses a request line. Returns method, target and minor version.
fn request_line(line: &str) -> Result<(&str, &str, u8), Status> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Status::BadRequest);
    };
    let visible = target.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token(method) || target.is_empty() || !visible {
        return Err(Status::BadRequest);
    }
    match version.strip_prefix("HTTP/").map(str::as_bytes) {
        Some(b"1.0") => Ok((method, target, 0)),
        Some([b'1', b'.', b'0'..=b'9']) => Ok((method, target, 1)),
        Some([b'0'..=b'9', b'.', b'0'..=b'9']) => Err(Status::VersionNotSupported),
        _ => Err(Status::BadRequest),
    }
}

/// Returns the path of a request target, which is in origin, absolute or asterisk form (RFC 9112, section
/// 3.2).
fn path<'a>(method: &str, target: &'a str) -> Result<&'a str, Status> {
    if method == "OPTIONS" && target == "*" {
        return Ok(target);
    }
    let after_authority = |rest: &'a str| rest.find(['/', '?']).map_or("", |index| &rest[index..]);
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let origin = match scheme {
        Some(scheme) => after_authority(&target[scheme.len()..]),
        None if target.starts_with('/') => target,
        None => return Err(Status::BadRequest),
    };
    let path = origin.split(['?', '#']).next().unwrap_or_default();
    Ok(if path.is_empty() { "/" } else { path })
}

/// Parses a field line (RFC 9112, section 5.1): no space before the colon, no line folding.
fn field(line: &str) -> Result<Field<'_>, Status> {
    let (name, value) = line.split_once(':').ok_or(Status::BadRequest)?;
    let value = value.trim_matches([' ', '\t']);
    let printable = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    if !is_token(name) || !value.bytes().all(printable) {
        return Err(Status::BadRequest);
    }
    Ok((name.to_ascii_lowercase(), value))
}

/// Returns true if `text` is a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Returns all values of a field, from all its lines. Each line may be a comma-separated list.
fn values<'a>(fields: &'a [Field<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = fields.iter().filter(move |(known, _)| known == name);
    lines.flat_map(|(_, value)| value.split(',')).map(|value| value.trim_matches([' ', '\t']))
}

/// Checks that there is one `Host` field, which is optional in HTTP/1.0 only (RFC 9112, section 3.2).
fn check_host(fields: &[Field<'_>], minor: u8) -> Result<(), Status> {
    match fields.iter().filter(|(name, _)| name == "host").count() {
        1 => Ok(()),
        0 if minor == 0 => Ok(()),
        _ => Err(Status::BadRequest),
    }
}

/// Returns true if the connection persists (RFC 9112, section 9.3).
fn keep_alive(fields: &[Field<'_>], minor: u8) -> bool {
    let has_option =
        |word: &str| values(fields, "connection").any(|option| option.eq_ignore_ascii_case(word));
    !has_option("close") && (minor > 0 || has_option("keep-alive"))
}

/// Returns true if the client expects `100 Continue` (RFC 9110, section 10.1.1).
fn expects_continue(fields: &[Field<'_>], minor: u8) -> Result<bool, Status> {
    let mut expectations = values(fields, "expect").filter(|expectation| !expectation.is_empty());
    match expectations.next() {
        None => Ok(false),
        Some(_) if minor == 0 => Ok(false),
        Some(word) if word.eq_ignore_ascii_case("100-continue") => Ok(true),
        Some(_) => Err(Status::ExpectationFailed),
    }
}

/// Returns the framing of the body (RFC 9112, section 6.3). Rejects ambiguous framing, because it enables
/// request smuggling.
fn length(fields: &[Field<'_>], minor: u8) -> Result<BodyLength, Status> {
    let has_field = |name: &str| fields.iter().any(|(known, _)| known == name);
    if has_field("transfer-encoding") {
        if minor == 0 || has_field("content-length") {
            return Err(Status::BadRequest);
        }
        let codings: Vec<&str> = values(fields, "transfer-encoding").collect();
        return match codings.as_slice() {
            [coding] if coding.eq_ignore_ascii_case("chunked") => Ok(BodyLength::Chunked),
            [.., last] if last.eq_ignore_ascii_case("chunked") => Err(Status::NotImplemented),
            _ => Err(Status::BadRequest),
        };
    }
    let mut lengths = values(fields, "content-length");
    let Some(length) = lengths.next() else { return Ok(BodyLength::Known(0)) };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || lengths.any(|other| other != length) {
        return Err(Status::BadRequest);
    }
    // The digits are valid, so the only error is overflow.
    length.parse().map(BodyLength::Known).map_err(|_| Status::ContentTooLarge)
}

#[cfg(test)]
mod tests;
