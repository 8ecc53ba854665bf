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

use crate::drive::Driver;
use crate::handlers::{self, Shared};
use crate::stream::Stream;

/// How many connections are served at the same time; others wait to be accepted.
const THREADS: usize = 64;

/// How long a connection may do nothing.
const IDLE: Duration = Duration::from_secs(10);

/// How long nobody is let in after that has failed, for want of memory or descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// What a thread needs.
#[derive(Clone, Debug)]
struct Server {
    listener: Arc<TcpListener>,
    shared: Arc<Shared>,
    router: Router,
    end: Sender<()>,
}

/// Serves until a client wants the program to end.
pub(crate) fn serve(listener: TcpListener) -> io::Result<()> {
    let shared = Arc::new(Shared::default());
    let router = handlers::router(Arc::clone(&shared));
    let (end, ended) = mpsc::channel();
    let server = Server { listener: Arc::new(listener), shared, router, end };
    for _ in 0..THREADS {
        let (server, driver) = (server.clone(), Driver::new()?);
        thread::Builder::new().spawn(move || server.run(driver))?;
    }
    // It cannot fail: there is a sender here.
    let _: Result<(), _> = ended.recv();
    Ok(())
}

impl Server {
    fn run(&self, mut driver: Driver) {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            // A client that is gone or too slow is no concern of anybody else's.
            let finished = self.converse(&mut driver, stream);
            if self.shared.ends.load(Ordering::Acquire) {
                // Those who end it without having got the answer are gone.
                finished.into_iter().for_each(part);
                // It fails if the program ends already.
                let _: Result<(), _> = self.end.send(());
            }
        }
    }

    /// Serves a connection, and gives it back.
    fn converse(&self, driver: &mut Driver, stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut source = mio::net::TcpStream::from_std(stream);
        driver.register(&mut source)?;
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new().serve_connection(Stream(&source), service);
        let outcome = driver.drive(connection, IDLE);
        driver.deregister(&mut source)?;
        outcome?.map_err(io::Error::other)?;
        Ok(source.into())
    }
}

/// Waits until the client has got the last answer: then it ends the connection.
fn part(mut stream: TcpStream) {
    let limited = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PAUSE * 100)));
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

    /// The code and the body of an answer.
    fn ask(address: SocketAddr, request: &str, body: &str) -> (String, String) {
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
    fn notes_are_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(listener).unwrap());
        let expect = |request: &str, body: &str, code: &str, answer: &str| {
            assert_eq!(ask(address, request, body), (code.to_owned(), answer.to_owned()), "{request}");
        };
        expect("POST /notes", r#"{"text":"milk"}"#, "201", r#"{"number":1,"text":"milk"}"#);
        expect("PUT /notes/1", r#"{"text":"bread"}"#, "200", r#"{"number":1,"text":"bread"}"#);
        expect("GET /notes?contains=rea", "", "200", r#"[{"number":1,"text":"bread"}]"#);
        expect("GET /notes?contains=milk", "", "200", "[]");
        expect("GET /notes/7", "", "404", "");
        expect("GET /elsewhere", "", "404", "");
        expect("PATCH /notes", "", "405", "");
        // Much more than arrives at once, but not too much; and too much.
        let text = "x".repeat(60_000);
        let (code, answer) = ask(address, "POST /notes", &format!(r#"{{"text":"{text}"}}"#));
        assert!(code == "201" && answer.len() > 60_000, "{code}");
        assert_eq!(ask(address, "POST /notes", &" ".repeat(70_000)).0, "413");
        assert_eq!(ask(address, "POST /notes", "nonsense").0, "400");
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| assert_eq!(ask(address, "GET /health", "").0, "200"));
            }
        });
        expect("DELETE /notes/1", "", "200", r#"{"number":1,"text":"bread"}"#);
        expect("POST /exit", "", "200", "goodbye\n");
        server.join().unwrap();
    }
}
