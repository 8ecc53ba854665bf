//! Crates for databases in SQL, with SQLite.

crate_uses::crate_uses! {
    "diesel": diesel,
    "rusqlite": rusqlite,
    "sqlx": sqlx,
}

mod database;
