//! Two workers, with state and a middleware, and an orderly end.

use std::sync::atomic::{AtomicU32, Ordering};

use ::actix_web::middleware::DefaultHeaders;
use ::actix_web::{App, HttpServer, Responder, get, post, rt, web};

use crate::client::{Point, ask};

#[get("/hello/{name}")]
async fn hello(name: web::Path<String>, count: web::Data<AtomicU32>) -> impl Responder {
    format!("Hello {name}, number {}!", count.fetch_add(1, Ordering::Relaxed))
}

#[post("/mirror")]
async fn mirror(point: web::Json<Point>) -> impl Responder {
    web::Json(point.mirrored())
}

pub fn run() -> crate_uses::Result {
    rt::System::new().block_on(async {
        let count = web::Data::new(AtomicU32::new(1));
        let app = move || {
            let headers = DefaultHeaders::new().add(("X-Version", "1"));
            App::new().app_data(count.clone()).wrap(headers).service(hello).service(mirror)
        };
        let server = HttpServer::new(app).workers(2).bind(("127.0.0.1", 0))?;
        let address = server.addrs()[0];
        let server = server.run();
        let handle = server.handle();
        let ended = rt::spawn(server);
        rt::task::spawn_blocking(move || ask(address)).await??;
        handle.stop(true).await;
        ended.await??;
        println!("ended");
        Ok(())
    })
}
