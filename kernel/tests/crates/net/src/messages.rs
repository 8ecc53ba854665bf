//! Messages of HTTP.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, Version, uri};
use httparse::{EMPTY_HEADER, Status, parse_chunk_size};

/// Requests, responses, headers and addresses of HTTP.
pub fn http() -> crate_uses::Result {
    use http::{Request, Response};

    let request = Request::builder()
        .method("PUT")
        .uri("https://u@h.example:8443/p/a?q=1")
        .header(ACCEPT, "text/*")
        .version(Version::HTTP_2)
        .body("body")?;
    println!("{request:?} {}", request.method() == Method::PUT);
    let (parts, body) = request.into_parts();
    println!(
        "{:?} {:?} {:?} {body}",
        parts.uri.authority(),
        parts.uri.port_u16(),
        parts.uri.path_and_query()
    );
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    for number in 0..40 {
        headers.append(HeaderName::from_bytes(format!("X-{}", number % 7).as_bytes())?, number.into());
    }
    println!(
        "{} {} {:?}",
        headers.len(),
        headers.keys_len(),
        headers.get_all("x-3").iter().collect::<Vec<_>>()
    );
    println!("{:?} {:?}", headers.remove("X-3"), headers.contains_key("x-3"));
    println!("{:?}", HeaderValue::from_str("a\nb").map_err(|error| error.to_string()));
    println!(
        "{:?} {:?}",
        "http://[::1".parse::<Uri>().map_err(|error| error.to_string()),
        uri::Scheme::HTTPS
    );
    let response = Response::builder().status(418).extension(5_u8).body(())?;
    println!(
        "{} {:?} {:?}",
        response.status(),
        response.status().is_client_error(),
        response.extensions().get::<u8>()
    );
    println!("{:?} {:?}", StatusCode::from_u16(99).is_err(), Method::from_bytes(b"BAD METHOD").is_err());
    Ok(())
}

const REQUEST: &[u8] =
    b"POST /a%20b?c HTTP/1.1\r\nHost: example.org\r\nX-Empty:\r\nContent-Length: 3\r\n\r\nabc";

/// Parses heads of requests and responses, and sizes of chunks.
pub fn httparse() -> crate_uses::Result {
    use httparse::{Request, Response};

    for length in [0, 10, 40, REQUEST.len()] {
        let mut headers = [EMPTY_HEADER; 8];
        let mut request = Request::new(&mut headers);
        match request.parse(&REQUEST[..length])? {
            Status::Complete(end) => {
                println!("{:?} {:?} {:?} {end}", request.method, request.path, request.version);
                for header in request.headers.iter() {
                    println!("{}: {:?}", header.name, String::from_utf8_lossy(header.value));
                }
            }
            Status::Partial => println!("partial {:?}", request.method),
        }
    }
    let mut headers = [EMPTY_HEADER; 1];
    let mut response = Response::new(&mut headers);
    println!("{:?} {:?}", response.parse(b"HTTP/1.0 404 Not There\r\na: b\r\n\r\n"), response.reason);
    for bad in [
        &b"GET\0 / HTTP/1.1\r\n\r\n"[..],
        b"GET / HTTP/3.0\r\n\r\n",
        b"GET / HTTP/1.1\r\na: 1\r\nb: 2\r\n\r\n",
    ] {
        println!("{:?}", Request::new(&mut [EMPTY_HEADER; 1]).parse(bad));
    }
    println!("{:?} {:?}", parse_chunk_size(b"1aF;x=y\r\n"), parse_chunk_size(b"xyz\r\n"));
    Ok(())
}
