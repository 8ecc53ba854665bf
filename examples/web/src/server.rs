//! Threads that serve one connection after the other, with hyper.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

use crate::executor::Executor;
use crate::handlers::{self, AppState};
use crate::stream::AsyncStream;

/// Number of threads, and so of concurrent connections; others wait to be accepted.
const THREADS: usize = 64;

/// Maximum time for a connection to be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before the next `accept` after a failed one, such as for lack of memory or descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// State of a serving thread.
#[derive(Clone, Debug)]
struct Server {
    listener: Arc<TcpListener>,
    state: Arc<AppState>,
    router: Router,
    exit: Sender<()>,
}

/// Serves until a client requests `/exit`.
pub(crate) fn serve(listener: TcpListener) -> io::Result<()> {
    let state = Arc::new(AppState::default());
    let router = handlers::router(Arc::clone(&state));
    let (exit, exit_requested) = mpsc::channel();
    let server = Server { listener: Arc::new(listener), state, router, exit };
    for _ in 0..THREADS {
        let (server, executor) = (server.clone(), Executor::new()?);
        thread::Builder::new().spawn(move || server.run(executor))?;
    }
    // Cannot fail: `server` keeps a sender.
    let _: Result<(), _> = exit_requested.recv();
    Ok(())
}

impl Server {
    fn run(&self, mut executor: Executor) {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(RETRY_DELAY);
                continue;
            };
            // A failed or idle connection does not affect other clients.
            let finished = self.serve_connection(&mut executor, stream);
            if self.state.exit_requested.load(Ordering::Acquire) {
                // Clients that request `/exit` and disconnect before the response need no wait.
                finished.into_iter().for_each(linger);
                // Fails if the program is exiting already.
                let _: Result<(), _> = self.exit.send(());
            }
        }
    }

    /// Serves a connection, and returns its stream.
    fn serve_connection(&self, executor: &mut Executor, stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut source = mio::net::TcpStream::from_std(stream);
        executor.register(&mut source)?;
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new().serve_connection(AsyncStream(&source), service);
        let outcome = executor.block_on(connection, IDLE_TIMEOUT);
        executor.deregister(&mut source)?;
        outcome?.map_err(io::Error::other)?;
        Ok(source.into())
    }
}

/// Waits until the client has received the last response and closes the connection, for 2 s at most.
fn linger(mut stream: TcpStream) {
    let limited =
        stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(RETRY_DELAY * 100)));
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
        let server = thread::spawn(move || serve(listener).unwrap());
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
