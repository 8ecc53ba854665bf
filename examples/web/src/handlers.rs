//! What the service does, with axum.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderName};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::notes::{Draft, Note, Notes};

/// Most bytes of a request's body.
const BODY: usize = 64 << 10;

/// What all requests share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    notes: Mutex<Notes>,
    /// Whether the program is to end.
    pub(crate) ends: AtomicBool,
}

impl Shared {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // No change of the notes can be half done.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the service is.
#[derive(Debug, Serialize)]
struct Health {
    system: &'static str,
    notes: usize,
}

/// Which notes are asked for.
#[derive(Debug, Default, Deserialize)]
struct Wanted {
    #[serde(default)]
    contains: String,
}

/// An answer that can be no note.
type Answer = Result<Json<Note>, StatusCode>;

/// The whole service.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/notes", get(list).post(add))
        .route("/notes/{number}", get(show).put(change).delete(remove))
        .route("/exit", post(exit))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(shared)
}

async fn health(State(shared): State<Arc<Shared>>) -> Json<Health> {
    Json(Health { system: env::consts::OS, notes: shared.notes().count() })
}

async fn list(State(shared): State<Arc<Shared>>, Query(wanted): Query<Wanted>) -> Json<Vec<Note>> {
    Json(shared.notes().containing(&wanted.contains))
}

async fn add(
    State(shared): State<Arc<Shared>>,
    Json(draft): Json<Draft>,
) -> Result<(StatusCode, Json<Note>), StatusCode> {
    let note = shared.notes().add(draft).ok_or(StatusCode::INSUFFICIENT_STORAGE)?;
    Ok((StatusCode::CREATED, Json(note)))
}

async fn show(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Answer {
    shared.notes().get(number).map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn change(
    State(shared): State<Arc<Shared>>,
    Path(number): Path<u64>,
    Json(draft): Json<Draft>,
) -> Answer {
    shared.notes().change(number, draft).map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn remove(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Answer {
    shared.notes().remove(number).map(Json).ok_or(StatusCode::NOT_FOUND)
}

/// The connection ends with the answer, and then the program.
async fn exit(State(shared): State<Arc<Shared>>) -> ([(HeaderName, &'static str); 1], &'static str) {
    shared.ends.store(true, Ordering::Release);
    ([(CONNECTION, "close")], "goodbye\n")
}
