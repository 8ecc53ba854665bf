//! Routes with guards, and an orderly end.

use std::net::TcpListener;
use std::sync::Mutex;

use ::rocket::fairing::AdHoc;
use ::rocket::serde::json::Json;
use ::rocket::tokio::sync::oneshot;
use ::rocket::{Config, get, post, routes, tokio};

use crate::client::{Point, ask};

#[get("/hello/<name>")]
fn hello(name: &str) -> String {
    format!("Hello {name}!")
}

#[post("/mirror", data = "<point>")]
fn mirror(point: Json<Point>) -> Json<Point> {
    Json(point.mirrored())
}

pub fn run() -> crate_uses::Result {
    // rocket binds the port itself, and says which one it is only by its messages.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let options = [("log_level", "off"), ("address", "127.0.0.1")];
    let config = options.iter().fold(Config::figment(), |config, option| config.merge(*option));
    let config = config.merge(("port", address.port())).merge(("workers", 2));
    ::rocket::execute(async move {
        let (started, starts) = oneshot::channel();
        let started = Mutex::new(Some(started));
        let is_up = AdHoc::on_liftoff("up", move |_| {
            let started = started.lock().ok().and_then(|mut started| started.take());
            Box::pin(async move {
                if let Some(started) = started {
                    let _ = started.send(());
                }
            })
        });
        let server =
            ::rocket::custom(config).mount("/", routes![hello, mirror]).attach(is_up).ignite().await?;
        let end = server.shutdown();
        let ended = tokio::spawn(server.launch());
        starts.await?;
        tokio::task::spawn_blocking(move || ask(address)).await??;
        end.notify();
        ended.await??;
        println!("ended");
        Ok(())
    })
}
