//! Parses heads of requests and responses, and sizes of chunks.

use httparse::{EMPTY_HEADER, Request, Response, Status, parse_chunk_size};

const REQUEST: &[u8] =
    b"POST /a%20b?c HTTP/1.1\r\nHost: example.org\r\nX-Empty:\r\nContent-Length: 3\r\n\r\nabc";

pub fn run() -> crate_uses::Result {
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
