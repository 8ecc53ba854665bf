//! Routes with extractors, a middleware, and an orderly end.

use std::time::Duration;

use ::poem::listener::{Acceptor, Listener, TcpListener};
use ::poem::middleware::SetHeader;
use ::poem::web::{Json, Path};
use ::poem::{EndpointExt, Route, Server, get, handler, post};
use tokio::sync::oneshot;

use crate::client::{Point, ask};

#[handler]
fn hello(Path(name): Path<String>) -> String {
    format!("Hello {name}!")
}

#[handler]
fn mirror(Json(point): Json<Point>) -> Json<Point> {
    Json(point.mirrored())
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Runtime::new()?.block_on(async {
        let acceptor = TcpListener::bind("127.0.0.1:0").into_acceptor().await?;
        let address = *acceptor.local_addr()[0].as_socket_addr().ok_or("no address")?;
        let app = Route::new().at("/hello/:name", get(hello)).at("/mirror", post(mirror));
        let app = app.with(SetHeader::new().appending("X-Version", "1"));
        let (end, ends) = oneshot::channel::<()>();
        let signal = async { drop(ends.await) };
        let server = Server::new_with_acceptor(acceptor);
        let server = server.run_with_graceful_shutdown(app, signal, Some(Duration::from_secs(10)));
        let ended = tokio::spawn(server);
        tokio::task::spawn_blocking(move || ask(address)).await??;
        drop(end);
        ended.await??;
        println!("ended");
        Ok(())
    })
}
