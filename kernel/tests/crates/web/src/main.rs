//! Crates for web servers. Each serves a name in the path, JSON in the body, and errors, to a client in the
//! same program.

mod actix_web;
mod client;
mod poem;
mod rocket;
mod salvo;
mod warp;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("actix-web", actix_web::run),
        ("poem", poem::run),
        ("rocket", rocket::run),
        ("salvo", salvo::run),
        ("warp", warp::run),
    ])
}
