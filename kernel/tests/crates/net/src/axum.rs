//! Serves routes with extractors, state and middleware.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Deserialize, Serialize)]
struct Point {
    x: f64,
    y: f64,
}

async fn mirror(Json(point): Json<Point>) -> Json<Point> {
    Json(Point { x: -point.x, y: point.y * 2.0 })
}

async fn count(State(counter): State<Arc<AtomicU32>>, request: Request, next: Next) -> Response {
    counter.fetch_add(1, Ordering::Relaxed);
    next.run(request).await
}

async fn user(Path((id, name)): Path<(u32, String)>, headers: HeaderMap) -> impl IntoResponse {
    let agent = headers.get("user-agent").and_then(|value| value.to_str().ok()).unwrap_or("none");
    (StatusCode::ACCEPTED, [("x-id", id.to_string())], format!("{name} by {agent}"))
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let counter = Arc::new(AtomicU32::new(0));
        let router = Router::new()
            .route("/", get(async || "root"))
            .route("/mirror", post(mirror))
            .route("/user/{id}/{name}", get(user))
            .layer(middleware::from_fn_with_state(counter.clone(), count));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router).await });
        let json = "POST /mirror HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n";
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            "GET /user/7/ada HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\nConnection: close\r\n\r\n".to_owned(),
            "GET /user/x/ada HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            format!("{json}{{\"x\":1,\"y\":2.5}}"),
            format!("{json}{{\"x\":1,\"y\":no}} "),
            "GET /mirror HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
        ] {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            // The date is another one each time.
            let lines = text.lines().filter(|line| !line.starts_with("date:"));
            println!("{}\n", lines.collect::<Vec<_>>().join("\n"));
        }
        println!("{}", counter.load(Ordering::Relaxed));
        Ok(())
    })
}
