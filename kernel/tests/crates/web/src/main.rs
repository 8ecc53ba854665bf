//! Crates for web servers. Each serves a name in the path, JSON in the body, and errors, to a client in the
//! same program.

crate_uses::crate_uses! {
    "actix-web": actix_web,
    "poem": poem,
    "rocket": rocket,
    "salvo": salvo,
    "warp": warp,
}

mod client;
