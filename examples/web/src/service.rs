//! The service's threads, each of which serves one connection after the other.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use web::Server;

use crate::handlers::{self, AppState};

/// Number of threads, and so of concurrent connections; others wait to be accepted.
const THREADS: usize = 64;

/// Maximum time to wait for the end of a client that has requested `/exit`.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until a client requests `/exit`.
pub(crate) fn serve(listener: &TcpListener) -> io::Result<()> {
    let state = Arc::new(AppState::default());
    let router = handlers::router(Arc::clone(&state));
    let (exit, exit_requested) = mpsc::channel();
    for _ in 0..THREADS {
        let mut server = Server::new(listener, router.clone())?;
        let (state, exit) = (Arc::clone(&state), exit.clone());
        thread::Builder::new().spawn(move || serve_connections(&mut server, &state, &exit))?;
    }
    // Cannot fail: `exit` is a sender.
    let _: Result<(), _> = exit_requested.recv();
    Ok(())
}

/// Serves one connection after the other.
fn serve_connections(server: &mut Server, state: &AppState, exit: &Sender<()>) {
    loop {
        let finished = server.serve_next();
        if state.exit_requested.load(Ordering::Acquire) {
            // Clients that request `/exit` and disconnect before the response need no wait.
            finished.into_iter().for_each(linger);
            // Fails if the program is exiting already.
            let _: Result<(), _> = exit.send(());
        }
    }
}

/// Waits until the client has received the last response and closes the connection.
fn linger(mut stream: TcpStream) {
    let limited = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LINGER_TIMEOUT)));
    let mut buffer = [0; 1024];
    if limited.is_ok() {
        while stream.read(&mut buffer).is_ok_and(|size| size > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread;

    use super::serve;

    /// Sends a request; returns status code and body of the response.
    fn request_once(address: SocketAddr, request: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
            Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }

    #[test]
    fn notes_are_stored_and_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(&listener).unwrap());
        let expect = |request: &str, body: &str, code: &str, answer: &str| {
            assert_eq!(
                request_once(address, request, body),
                (code.to_owned(), answer.to_owned()),
                "{request}"
            );
        };
        expect("POST /notes", r#"{"text":"milk"}"#, "201", r#"{"number":1,"text":"milk"}"#);
        expect("PUT /notes/1", r#"{"text":"bread"}"#, "200", r#"{"number":1,"text":"bread"}"#);
        expect("GET /notes?contains=rea", "", "200", r#"[{"number":1,"text":"bread"}]"#);
        expect("GET /notes?contains=milk", "", "200", "[]");
        expect("GET /notes/7", "", "404", "");
        expect("GET /elsewhere", "", "404", "");
        expect("PATCH /notes", "", "405", "");
        // More than arrives at once, within the limit; and beyond the limit.
        let text = "x".repeat(60_000);
        let (code, answer) = request_once(address, "POST /notes", &format!(r#"{{"text":"{text}"}}"#));
        assert!(code == "201" && answer.len() > 60_000, "{code}");
        assert_eq!(request_once(address, "POST /notes", &" ".repeat(70_000)).0, "413");
        assert_eq!(request_once(address, "POST /notes", "nonsense").0, "400");
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| assert_eq!(request_once(address, "GET /health", "").0, "200"));
            }
        });
        expect("DELETE /notes/1", "", "200", r#"{"number":1,"text":"bread"}"#);
        expect("POST /exit", "", "200", "goodbye\n");
        server.join().unwrap();
    }
}
