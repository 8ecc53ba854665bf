//! A web server of the files in a folder: axum and tower-http, unmodified from crates.io.
//!
//! `static_files [FOLDER [PORT]]` (default `/srv` and 80) prints its address and serves until SIGTERM or Ctrl-C. It
//! answers `GET` and `HEAD` with media types, ranges and conditions (RFC 9110), and a folder with its `index.html`.

#![forbid(unsafe_code)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io, thread};

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use tower_http::services::ServeDir;
use web::Server;

/// Default folder.
const FOLDER: &str = "/srv";

/// Default port.
const PORT: u16 = 80;

/// Number of threads, and so of concurrent connections; others wait to be accepted.
const THREADS: usize = 64;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let folder = arguments.first().map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
    let port = arguments.get(1).map(|port| port.to_str().and_then(|port| port.parse().ok()));
    let (0..=2, None | Some(Some(_))) = (arguments.len(), port) else {
        eprintln!("usage: static_files [FOLDER [PORT]]");
        return ExitCode::from(USAGE_ERROR);
    };
    match run(&folder, port.flatten().unwrap_or(PORT)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot serve {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, port: u16) -> io::Result<()> {
    // A missing folder is an error now, and not one of each request.
    folder.read_dir()?;
    let listener = web::listen(port)?;
    println!("listening on http://{}", listener.local_addr()?);
    serve(&listener, folder)?;
    hermit_sys::shutdown::wait()
}

/// Starts the threads that serve the folder.
fn serve(listener: &TcpListener, folder: &Path) -> io::Result<()> {
    // Leaked, since the threads live as long as the program. It has threads that read files; nothing else runs in it.
    let runtime: &'static Runtime = Box::leak(Box::new(Builder::new_current_thread().build()?));
    let router = Router::new().fallback_service(ServeDir::new(folder));
    for _ in 0..THREADS {
        let mut server = Server::new(listener, router.clone())?;
        thread::Builder::new().spawn(move || {
            let _entered = runtime.enter();
            loop {
                server.serve_next();
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::serve;

    /// Sends a request with a field; returns the response.
    fn request(address: SocketAddr, request: &str, field: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn files_of_the_folder_are_served() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("site");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("index.html"), "<p>hello</p>").unwrap();
        fs::write(folder.join("large.txt"), "0123456789".repeat(100_000)).unwrap();
        fs::write(outside.path().join("outside.txt"), "secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        serve(&listener, &folder).unwrap();
        let address = listener.local_addr().unwrap();
        let get = |path: &str, field: &str| request(address, &format!("GET {path}"), field);

        let page = get("/", "Accept: */*");
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("<p>hello</p>"), "{page}");
        assert!(page.contains("content-type: text/html"), "{page}");
        assert!(get("/large.txt", "Accept: */*").len() > 1_000_000);
        let part = get("/large.txt", "Range: bytes=5-7");
        assert!(part.starts_with("HTTP/1.1 206") && part.ends_with("\r\n\r\n567"), "{part}");
        assert!(get("/none", "Accept: */*").starts_with("HTTP/1.1 404"));
        assert!(get("/../outside.txt", "Accept: */*").starts_with("HTTP/1.1 404"));
        assert!(get("/%2e%2e/outside.txt", "Accept: */*").starts_with("HTTP/1.1 404"));
        assert!(request(address, "POST /", "Accept: */*").starts_with("HTTP/1.1 405"));
        let date = page.lines().find_map(|line| line.strip_prefix("last-modified: ")).unwrap();
        assert!(get("/index.html", &format!("If-Modified-Since: {date}")).starts_with("HTTP/1.1 304"));
    }
}
