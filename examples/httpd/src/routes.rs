//! Routes: the resources of the server.

use std::{env, fs};

use crate::memory;
use crate::request::HttpRequest;
use crate::response::{Content, Response};
use crate::status::Status;

/// Maximum number of bytes of `/bytes/N`.
const MAX_BYTES: u64 = 1 << 40;

/// Methods of RFC 9110, section 9, and RFC 5789. Requests with other methods are answered with 501.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Returns the response to a request.
pub(crate) fn respond(request: &HttpRequest, body: Vec<u8>) -> Response {
    let method = request.method.as_str();
    let is_get_or_head = ["GET", "HEAD"].contains(&method);
    match request.path.as_str() {
        _ if !METHODS.contains(&method) => Response::status_only(Status::NotImplemented),
        "/" if is_get_or_head => greeting(),
        "/" => not_allowed("GET, HEAD"),
        "/echo" if method == "POST" => Response::new(Content::Bytes(body)),
        "/echo" => not_allowed("POST"),
        "/exit" if ["GET", "POST"].contains(&method) => {
            Response { exits: true, ..Response::new(Content::Text("goodbye\n".to_owned())) }
        }
        "/exit" => not_allowed("GET, POST"),
        "/file" if is_get_or_head => file(),
        "/available" if is_get_or_head => available(),
        "/file" | "/available" => not_allowed("GET, HEAD"),
        "*" => Response { allow: Some("GET, HEAD, POST"), ..Response::new(Content::Text(String::new())) },
        path => match path.strip_prefix("/bytes/") {
            Some(count) if is_get_or_head => filler(count),
            Some(_) => not_allowed("GET, HEAD"),
            None => Response::status_only(Status::NotFound),
        },
    }
}

fn greeting() -> Response {
    Response::new(Content::Text(format!("Hello from {}\n", env::consts::OS)))
}

fn not_allowed(methods: &'static str) -> Response {
    Response { allow: Some(methods), ..Response::status_only(Status::MethodNotAllowed) }
}

/// Returns the contents of the file named by `HTTPD_FILE`.
fn file() -> Response {
    let bytes = env::var_os("HTTPD_FILE").and_then(|path| fs::read(path).ok());
    bytes
        .map_or_else(|| Response::status_only(Status::NotFound), |bytes| Response::new(Content::Bytes(bytes)))
}

fn available() -> Response {
    let size = memory::available();
    size.map_or_else(
        || Response::status_only(Status::NotFound),
        |size| Response::new(Content::Text(format!("{size}\n"))),
    )
}

fn filler(count: &str) -> Response {
    let digits = count.bytes().all(|byte| byte.is_ascii_digit());
    match count.parse() {
        Ok(count) if digits && count <= MAX_BYTES => Response::new(Content::Filler(count)),
        _ => Response::status_only(Status::NotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::respond;
    use crate::request::HttpRequest;
    use crate::response::{Content, Response};
    use crate::status::Status;

    fn respond_to(method: &str, path: &str) -> Response {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&HttpRequest::parse(head.as_bytes()).unwrap(), b"body".to_vec())
    }

    #[test]
    fn every_route_responds() {
        assert_eq!(respond_to("GET", "/").status, Status::Ok);
        assert_eq!(respond_to("POST", "/echo").content, Content::Bytes(b"body".to_vec()));
        assert_eq!(respond_to("GET", "/bytes/17").content, Content::Filler(17));
        assert!(respond_to("POST", "/exit").exits);
        assert_eq!(respond_to("OPTIONS", "*").status, Status::Ok);
        let Content::Text(size) = respond_to("GET", "/available").content else { panic!("it is no text") };
        assert!(size.trim_end().parse::<u64>().unwrap() > 1 << 20);
    }

    #[test]
    fn unknown_paths_and_methods_are_rejected() {
        for path in [
            "/nothing",
            "/file",
            "/bytes",
            "/bytes/",
            "/bytes/x",
            "/bytes/+1",
            "/bytes/-1",
            "/bytes/9999999999999",
        ] {
            assert_eq!(respond_to("GET", path).status, Status::NotFound, "{path}");
        }
        for (method, path) in
            [("POST", "/"), ("GET", "/echo"), ("PUT", "/bytes/1"), ("DELETE", "/exit"), ("PUT", "/file")]
        {
            let response = respond_to(method, path);
            assert_eq!((response.status, response.exits), (Status::MethodNotAllowed, false), "{path}");
            assert!(response.allow.is_some(), "{path}");
        }
        assert_eq!(respond_to("BREW", "/").status, Status::NotImplemented);
    }
}
