//! Routes with handlers, a middleware, and an orderly end.

use ::salvo::conn::Acceptor as _;
use ::salvo::prelude::*;

use crate::client::{Point, ask};

#[handler]
async fn version(response: &mut Response) {
    response.headers_mut().insert("x-version", ::salvo::http::HeaderValue::from_static("1"));
}

#[handler]
async fn hello(request: &mut Request) -> String {
    format!("Hello {}!", request.param::<String>("name").unwrap_or_default())
}

#[handler]
async fn mirror(request: &mut Request) -> Result<Json<Point>, StatusError> {
    let point: Point = request.parse_json().await.map_err(|_| StatusError::bad_request())?;
    Ok(Json(point.mirrored()))
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Runtime::new()?.block_on(async {
        let acceptor = TcpListener::new("127.0.0.1:0").bind().await;
        let address = acceptor.holdings()[0].local_addr.clone().into_std().ok_or("no address")?;
        let greeting = Router::with_path("hello/{name}").get(hello);
        let router =
            Router::new().hoop(version).push(greeting).push(Router::with_path("mirror").post(mirror));
        let server = Server::new(acceptor);
        let handle = server.handle();
        let ended = tokio::spawn(server.serve(router));
        tokio::task::spawn_blocking(move || ask(address)).await??;
        handle.stop_graceful(None);
        ended.await?;
        println!("ended");
        Ok(())
    })
}
