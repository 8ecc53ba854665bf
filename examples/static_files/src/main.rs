//! A web server of the files in a folder: axum, tokio and tower-http, as one writes it for Linux.
//!
//! `static_files [FOLDER [PORT]]` (default `/srv` and 80) prints its address and serves until Ctrl-C, or in a
//! virtual machine until SIGTERM. It answers `GET` and `HEAD`, with media types, ranges and conditions (RFC
//! 9110). The response for a folder is the `index.html` in it.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, future, io};

use axum::Router;
use tokio::net::TcpListener;
use tokio::signal;
use tower_http::services::ServeDir;

/// Default folder.
const FOLDER: &str = "/srv";

/// Default port.
const PORT: u16 = 80;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let folder = arguments.first().map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
    let port = arguments.get(1).map(|port| port.to_str().and_then(|port| port.parse().ok()));
    let (0..=2, None | Some(Some(_))) = (arguments.len(), port) else {
        eprintln!("usage: static_files [FOLDER [PORT]]");
        return ExitCode::from(USAGE_ERROR);
    };
    match run(&folder, port.flatten().unwrap_or(PORT)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot serve {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

async fn run(folder: &Path, port: u16) -> io::Result<()> {
    // If the folder is missing, the program fails now. Otherwise each request would fail.
    folder.read_dir()?;
    let listener = listen(port).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router(folder)).with_graceful_shutdown(wait_for_ctrl_c()).await
}

/// Waits until the host requests the program to end. If requests cannot be received, waits for ever.
async fn wait_for_ctrl_c() {
    if let Err(error) = signal::ctrl_c().await {
        eprintln!("cannot wait for Ctrl-C: {error}");
        future::pending::<()>().await;
    }
}

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

fn router(folder: &Path) -> Router {
    Router::new().fallback_service(ServeDir::new(folder))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use tokio::net::TcpListener;
    use tokio::task;

    use super::router;

    /// Sends a request with a field. Returns the response.
    fn request(address: SocketAddr, request: &str, field: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[tokio::test]
    async fn files_of_the_folder_are_served() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("site");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("index.html"), "<p>hello</p>").unwrap();
        fs::write(folder.join("large.txt"), "0123456789".repeat(100_000)).unwrap();
        fs::write(outside.path().join("outside.txt"), "secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = axum::serve(listener, router(&folder)).into_future();
        let client = task::spawn_blocking(move || request_files(address));
        tokio::select! {
            _ = server => panic!("the server ended"),
            client = client => client.unwrap(),
        }
    }

    fn request_files(address: SocketAddr) {
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
