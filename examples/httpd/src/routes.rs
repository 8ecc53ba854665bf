//! What there is to be asked for.

use std::{env, fs};

use crate::memory;
use crate::request::Request;
use crate::response::{Content, Response};
use crate::status::Status;

/// Most bytes that `/bytes/` gives.
const MAX_BYTES: u64 = 1 << 40;

/// The methods of RFC 9110, section 9, and of RFC 5789: others are not known here.
const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The answer to a request with this body.
pub(crate) fn answer(request: &Request, body: Vec<u8>) -> Response {
    let method = request.method.as_str();
    let reads = ["GET", "HEAD"].contains(&method);
    match request.path.as_str() {
        _ if !KNOWN.contains(&method) => Response::plain(Status::NotImplemented),
        "/" if reads => greeting(),
        "/" => not_allowed("GET, HEAD"),
        "/echo" if method == "POST" => Response::new(Content::Bytes(body)),
        "/echo" => not_allowed("POST"),
        "/exit" if ["GET", "POST"].contains(&method) => {
            Response { exits: true, ..Response::new(Content::Text("goodbye\n".to_owned())) }
        }
        "/exit" => not_allowed("GET, POST"),
        "/file" if reads => file(),
        "/memory" if reads => Response::new(Content::Text(format!("{}\n", memory::largest_block()))),
        "/file" | "/memory" => not_allowed("GET, HEAD"),
        "*" => Response { allow: Some("GET, HEAD, POST"), ..Response::new(Content::Text(String::new())) },
        path => match path.strip_prefix("/bytes/") {
            Some(count) if reads => filler(count),
            Some(_) => not_allowed("GET, HEAD"),
            None => Response::plain(Status::NotFound),
        },
    }
}

fn greeting() -> Response {
    Response::new(Content::Text(format!("Hello from {}\n", env::consts::OS)))
}

fn not_allowed(methods: &'static str) -> Response {
    Response { allow: Some(methods), ..Response::plain(Status::MethodNotAllowed) }
}

/// Everything that is in the file.
fn file() -> Response {
    let bytes = env::var_os("HTTPD_FILE").and_then(|path| fs::read(path).ok());
    bytes.map_or_else(|| Response::plain(Status::NotFound), |bytes| Response::new(Content::Bytes(bytes)))
}

fn filler(count: &str) -> Response {
    let digits = count.bytes().all(|byte| byte.is_ascii_digit());
    match count.parse() {
        Ok(count) if digits && count <= MAX_BYTES => Response::new(Content::Filler(count)),
        _ => Response::plain(Status::NotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::request::Request;
    use crate::response::{Content, Response};
    use crate::status::Status;

    fn ask(method: &str, path: &str) -> Response {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        answer(&Request::parse(head.as_bytes()).unwrap(), b"body".to_vec())
    }

    #[test]
    fn every_path_answers() {
        assert_eq!(ask("GET", "/").status, Status::Ok);
        assert_eq!(ask("POST", "/echo").content, Content::Bytes(b"body".to_vec()));
        assert_eq!(ask("GET", "/bytes/17").content, Content::Filler(17));
        assert!(ask("POST", "/exit").exits);
        assert_eq!(ask("OPTIONS", "*").status, Status::Ok);
        let Content::Text(size) = ask("GET", "/memory").content else { panic!("it is no text") };
        assert!(size.trim_end().parse::<usize>().unwrap() > 1 << 20);
    }

    #[test]
    fn what_there_is_not_is_refused() {
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
            assert_eq!(ask("GET", path).status, Status::NotFound, "{path}");
        }
        for (method, path) in
            [("POST", "/"), ("GET", "/echo"), ("PUT", "/bytes/1"), ("DELETE", "/exit"), ("PUT", "/file")]
        {
            let response = ask(method, path);
            assert_eq!((response.status, response.exits), (Status::MethodNotAllowed, false), "{path}");
            assert!(response.allow.is_some(), "{path}");
        }
        assert_eq!(ask("BREW", "/").status, Status::NotImplemented);
    }
}
