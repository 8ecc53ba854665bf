//! Valid, invalid and random requests.

use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert_eq, proptest};

use super::{BodyLength, HttpRequest};
use crate::status::Status;

fn parse(lines: &[&str]) -> Result<HttpRequest, Status> {
    HttpRequest::parse(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes())
}

/// Parses a request with a `Host` field and one more field.
fn parse_with_field(field: &str) -> Result<HttpRequest, Status> {
    parse(&["POST / HTTP/1.1", "Host: a", field])
}

#[test]
fn simple_request_is_parsed() {
    let request = parse(&["GET /a/b?c=d HTTP/1.1", "Host: example.org", "Accept: */*"]).unwrap();
    let expected = HttpRequest {
        method: "GET".to_owned(),
        path: "/a/b".to_owned(),
        keep_alive: true,
        expects_continue: false,
        length: BodyLength::Known(0),
    };
    assert_eq!(request, expected);
}

#[test]
fn all_target_forms_are_parsed() {
    let path = |target: &str| parse(&[&format!("GET {target} HTTP/1.1"), "Host: a"]).map(|found| found.path);
    assert_eq!(path("/"), Ok("/".to_owned()));
    assert_eq!(path("http://a.b:80/c?d"), Ok("/c".to_owned()));
    assert_eq!(path("HTTP://a"), Ok("/".to_owned()));
    assert_eq!(path("http://a?b"), Ok("/".to_owned()));
    for bad in ["*", "a", "a:80", "ftp://a/", "", "/\u{7f}", "/ü"] {
        assert_eq!(path(bad), Err(Status::BadRequest), "{bad}");
    }
    assert_eq!(parse(&["OPTIONS * HTTP/1.1", "Host: a"]).unwrap().path, "*");
}

#[test]
fn invalid_request_lines_are_rejected() {
    let cases = [
        ("", Status::BadRequest),
        ("GET", Status::BadRequest),
        ("GET /", Status::BadRequest),
        ("GET  / HTTP/1.1", Status::BadRequest),
        ("GET / HTTP/1.1 ", Status::BadRequest),
        (" GET / HTTP/1.1", Status::BadRequest),
        ("G@T / HTTP/1.1", Status::BadRequest),
        ("GET / http/1.1", Status::BadRequest),
        ("GET / HTTP/1.10", Status::BadRequest),
        ("GET / HTTP/2.0", Status::VersionNotSupported),
        ("GET / HTTP/0.9", Status::VersionNotSupported),
    ];
    for (line, status) in cases {
        assert_eq!(parse(&[line, "Host: a"]), Err(status), "{line}");
    }
    assert!(parse(&["GET / HTTP/1.7", "Host: a"]).is_ok());
}

#[test]
fn invalid_fields_are_rejected() {
    for field in ["a", ": b", "a : b", " a: b", "\ta: b", "a: b\rc", "a: \u{0}", "a(: b", "ä: b"] {
        assert_eq!(parse_with_field(field), Err(Status::BadRequest), "{field:?}");
    }
    for field in ["a:", "a: ü", "a: b: c", "A-1: \t b \t"] {
        assert!(parse_with_field(field).is_ok(), "{field:?}");
    }
    let many: Vec<String> = (0..101).map(|number| format!("a{number}: b")).collect();
    let lines: Vec<&str> = ["GET / HTTP/1.1"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(parse(&lines), Err(Status::RequestHeaderFieldsTooLarge));
}

#[test]
fn exactly_one_host_is_required() {
    assert_eq!(parse(&["GET / HTTP/1.1"]), Err(Status::BadRequest));
    assert_eq!(parse_with_field("Host: a"), Err(Status::BadRequest));
    assert!(parse(&["GET / HTTP/1.0"]).is_ok());
}

#[test]
fn connection_field_controls_persistence() {
    assert!(parse_with_field("Connection: upgrade").unwrap().keep_alive);
    assert!(!parse_with_field("Connection: upgrade, CLOSE").unwrap().keep_alive);
    assert!(!parse(&["GET / HTTP/1.0"]).unwrap().keep_alive);
    assert!(parse(&["GET / HTTP/1.0", "Connection: Keep-Alive"]).unwrap().keep_alive);
}

#[test]
fn ambiguous_body_lengths_are_rejected() {
    let length = |field: &str| parse_with_field(field).map(|request| request.length);
    assert_eq!(length("Content-Length: 17"), Ok(BodyLength::Known(17)));
    assert_eq!(length("Content-Length: 17, 17"), Ok(BodyLength::Known(17)));
    assert_eq!(length("Transfer-Encoding: Chunked"), Ok(BodyLength::Chunked));
    assert_eq!(length("Transfer-Encoding: gzip, chunked"), Err(Status::NotImplemented));
    assert_eq!(length("Content-Length: 99999999999999999999"), Err(Status::ContentTooLarge));
    let bad = ["Content-Length: 1, 2", "Content-Length: -1", "Content-Length: +1", "Content-Length:"];
    for field in
        bad.into_iter().chain(["Content-Length: 0x1", "Transfer-Encoding: gzip", "Transfer-Encoding:"])
    {
        assert_eq!(length(field), Err(Status::BadRequest), "{field}");
    }
    let both = ["POST / HTTP/1.1", "Host: a", "Content-Length: 1", "Transfer-Encoding: chunked"];
    assert_eq!(parse(&both), Err(Status::BadRequest));
    assert_eq!(parse(&["POST / HTTP/1.0", "Transfer-Encoding: chunked"]), Err(Status::BadRequest));
}

#[test]
fn unknown_expectation_is_rejected() {
    assert!(parse_with_field("Expect: 100-Continue").unwrap().expects_continue);
    assert_eq!(parse_with_field("Expect: miracles"), Err(Status::ExpectationFailed));
    assert!(!parse(&["POST / HTTP/1.0", "Expect: 100-continue"]).unwrap().expects_continue);
}

/// Random sequences of fragments of requests.
fn request_fragments() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::sample::select(vec![
        "GET ",
        "POST ",
        "/",
        "http://",
        " HTTP/1.1",
        " HTTP/1.0",
        "\r\n",
        "\r",
        "\n",
        "Host: a",
        ":",
        " ",
        "\t",
        "Content-Length: ",
        "Transfer-Encoding: ",
        "chunked",
        "Expect: 100-continue",
        ",",
        "7",
        "ü",
        "\u{0}",
        "?",
    ]);
    prop::collection::vec(parts, 0..24)
        .prop_map(|parts| [parts.concat(), "\r\n\r\n".to_owned()].concat().into())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        // Any result is fine, a panic is not.
        let _: Result<HttpRequest, Status> = HttpRequest::parse(&bytes);
    }

    #[test]
    fn random_fragments_never_panic(bytes in request_fragments()) {
        if let Ok(request) = HttpRequest::parse(&bytes) {
            prop_assert_eq!(request.path.starts_with(['/', '*']), true);
        }
    }

    #[test]
    fn valid_request_is_parsed_as_written(
        method in "[A-Z]{1,10}",
        path in "/[a-zA-Z0-9/._~%-]{0,40}",
        query in prop::option::of("[a-z=&]{0,10}"),
        fields in prop::collection::vec(("X-[A-Za-z0-9-]{1,10}", "[!-~]([ -~]{0,20}[!-~])?"), 0..10),
        length in prop::option::of(any::<u64>()),
        close in any::<bool>(),
    ) {
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let mut lines = vec![format!("{method} {path}{query} HTTP/1.1"), "hOST: somewhere".to_owned()];
        lines.extend(fields.iter().map(|(name, value)| format!("{name}:{value}")));
        lines.extend(length.map(|length| format!("CONTENT-LENGTH:\t{length} ")));
        lines.extend(close.then(|| "Connection: x, close".to_owned()));
        let request = HttpRequest::parse(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap();
        let length = BodyLength::Known(length.unwrap_or_default());
        let expected = HttpRequest { method, path, keep_alive: !close, expects_continue: false, length };
        prop_assert_eq!(request, expected);
    }
}
