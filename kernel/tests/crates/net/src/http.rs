//! Requests, responses, headers and addresses of HTTP.

use ::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, Request, Response, StatusCode, Uri, Version, uri};

pub fn run() -> crate_uses::Result {
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
