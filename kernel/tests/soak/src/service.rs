//! The requests of clients.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderName};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::work::Progress;

/// Maximum number of bytes of a body, both ways.
const MAX_BODY: usize = 1 << 20;

/// State shared by all requests.
#[derive(Debug)]
struct AppState {
    progress: Arc<Progress>,
    /// Notified when a client requests `/exit`.
    exit: Notify,
}

/// Serves until a client requests `/exit`.
pub(crate) async fn serve(listener: TcpListener, progress: Arc<Progress>) -> io::Result<()> {
    let state = Arc::new(AppState { progress, exit: Notify::new() });
    // Fails for a client that has gone meanwhile.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let end = Arc::clone(&state);
    let router = router(state);
    axum::serve(listener, router).with_graceful_shutdown(async move { end.exit.notified().await }).await
}

fn router(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/bytes/{count}", get(bytes))
        .route("/sum", post(sum))
        .route("/progress", get(progress))
        .route("/available", get(available))
        .route("/pause", post(|state| set_paused(state, true)))
        .route("/resume", post(|state| set_paused(state, false)))
        .route("/exit", post(exit))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(state)
}

async fn bytes(Path(count): Path<usize>) -> Result<Vec<u8>, StatusCode> {
    if count > MAX_BODY {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok((0..251_u8).cycle().take(count).collect())
}

async fn sum(body: Bytes) -> String {
    let sum: u64 = body.iter().copied().map(u64::from).sum();
    format!("{} {sum}\n", body.len())
}

async fn progress(State(state): State<Arc<AppState>>) -> String {
    format!("{}\n", state.progress)
}

async fn available() -> Result<String, StatusCode> {
    let meminfo = tokio::fs::read_to_string("/proc/meminfo").await.unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.map(|size| format!("{}\n", size * 1024)).ok_or(StatusCode::NOT_IMPLEMENTED)
}

async fn set_paused(State(state): State<Arc<AppState>>, is_paused: bool) {
    state.progress.is_paused.store(is_paused, Ordering::Relaxed);
}

async fn exit(State(state): State<Arc<AppState>>) -> ([(HeaderName, &'static str); 1], &'static str) {
    state.exit.notify_one();
    ([(CONNECTION, "close")], "goodbye\n")
}
