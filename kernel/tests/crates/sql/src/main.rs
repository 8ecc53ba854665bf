//! Crates for databases in SQL, with SQLite.

mod database;
mod diesel;
mod rusqlite;
mod sqlx;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[("diesel", diesel::run), ("rusqlite", rusqlite::run), ("sqlx", sqlx::run)])
}
