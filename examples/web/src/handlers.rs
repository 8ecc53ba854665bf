//! Request handlers, with axum.

use std::env;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderName};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::memory;
use crate::notes::{Draft, Note, Notes};

/// Maximum size of a request's body, in bytes.
const MAX_BODY: usize = 64 << 10;

/// State shared by all requests.
#[derive(Debug, Default)]
pub(crate) struct AppState {
    notes: Mutex<Notes>,
    /// Notified when a client requests `/exit`.
    pub(crate) exit: Notify,
}

impl AppState {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // The notes are valid even if a thread has panicked while it held the lock, because each change is
        // one operation.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Response of `/health`.
#[derive(Debug, Serialize)]
struct Health {
    system: &'static str,
    notes: usize,
}

/// Query parameters of `GET /notes`.
#[derive(Debug, Default, Deserialize)]
struct NoteFilter {
    #[serde(default)]
    contains: String,
}

/// A note, or the status of an error.
type NoteResult = Result<Json<Note>, StatusCode>;

/// Creates the router of the service.
pub(crate) fn router(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/notes", get(list).post(add))
        .route("/notes/{number}", get(show).put(change).delete(remove))
        .route("/available", get(available))
        .route("/panic", get(fail))
        .route("/exit", post(exit))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(state)
}

async fn health(State(state): State<Arc<AppState>>) -> Json<Health> {
    Json(Health { system: env::consts::OS, notes: state.notes().count() })
}

async fn available() -> Result<String, StatusCode> {
    let size = memory::available().await.ok_or(StatusCode::NOT_FOUND)?;
    Ok(format!("{size}\n"))
}

/// Panics while it holds the lock that all handlers take.
async fn fail(State(state): State<Arc<AppState>>) {
    let notes = state.notes();
    panic!("this request panics, with {} notes", notes.count());
}

async fn list(State(state): State<Arc<AppState>>, Query(filter): Query<NoteFilter>) -> Json<Vec<Note>> {
    Json(state.notes().containing(&filter.contains))
}

async fn add(
    State(state): State<Arc<AppState>>,
    Json(draft): Json<Draft>,
) -> Result<(StatusCode, Json<Note>), StatusCode> {
    let note = state.notes().add(draft).ok_or(StatusCode::INSUFFICIENT_STORAGE)?;
    Ok((StatusCode::CREATED, Json(note)))
}

async fn show(State(state): State<Arc<AppState>>, Path(number): Path<u64>) -> NoteResult {
    state.notes().get(number).map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn change(
    State(state): State<Arc<AppState>>,
    Path(number): Path<u64>,
    Json(draft): Json<Draft>,
) -> NoteResult {
    state.notes().change(number, draft).map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn remove(State(state): State<Arc<AppState>>, Path(number): Path<u64>) -> NoteResult {
    state.notes().remove(number).map(Json).ok_or(StatusCode::NOT_FOUND)
}

/// Closes the connection after the response; then the program exits.
async fn exit(State(state): State<Arc<AppState>>) -> ([(HeaderName, &'static str); 1], &'static str) {
    state.exit.notify_one();
    ([(CONNECTION, "close")], "goodbye\n")
}
