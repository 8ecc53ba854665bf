//! Filters, and an orderly end.

use ::warp::Filter;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::client::{Point, ask};

pub fn run() -> crate_uses::Result {
    tokio::runtime::Runtime::new()?.block_on(async {
        let hello = ::warp::path!("hello" / String).map(|name| format!("Hello {name}!"));
        let mirror = ::warp::path!("mirror").and(::warp::post()).and(::warp::body::json());
        let mirror = mirror.map(|point: Point| ::warp::reply::json(&point.mirrored()));
        let routes = hello.or(mirror).with(::warp::reply::with::header("X-Version", "1"));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (end, ends) = oneshot::channel::<()>();
        let server = ::warp::serve(routes).incoming(listener).graceful(async { drop(ends.await) });
        let ended = tokio::spawn(server.run());
        tokio::task::spawn_blocking(move || ask(address)).await??;
        drop(end);
        ended.await?;
        println!("ended");
        Ok(())
    })
}
