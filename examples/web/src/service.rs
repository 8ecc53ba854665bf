//! The service: the router on a listener, until a client or the host ends it.

use std::future;
use std::io;
use std::sync::Arc;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::signal;

use crate::handlers::{self, AppState};

/// Serves until a client requests `/exit`, or until the host requests the program to end.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    let state = Arc::new(AppState::default());
    let router = handlers::router(Arc::clone(&state));
    // An error is ignored: the client may have closed the connection meanwhile.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let end = async move {
        tokio::select! {
            () = state.exit.notified() => {}
            () = wait_for_ctrl_c() => {}
        }
    };
    axum::serve(listener, router).with_graceful_shutdown(end).await
}

/// Waits until the host requests the program to end. If requests cannot be received, waits for ever.
async fn wait_for_ctrl_c() {
    if let Err(error) = signal::ctrl_c().await {
        eprintln!("cannot wait for Ctrl-C: {error}");
        future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread;

    use tokio::net::TcpListener;
    use tokio::task;

    use super::serve;

    /// Sends a request. Returns status code and body of the response.
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

    #[tokio::test]
    async fn notes_are_stored_and_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = task::spawn_blocking(move || store_and_change(address));
        serve(listener).await.unwrap();
        client.await.unwrap();
    }

    fn store_and_change(address: SocketAddr) {
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
        // One body is within the limit, but larger than one read. Another body is above the limit.
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
    }
}
