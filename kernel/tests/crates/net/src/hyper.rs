//! An HTTP server and a client with connections that are kept.

use std::convert::Infallible;

use ::hyper::body::{Bytes, Incoming};
use ::hyper::service::service_fn;
use ::hyper::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let status = if parts.uri.path() == "/none" { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let text = format!("{} {} {}", parts.method, parts.uri.path(), crate_uses::digest(&body));
    Ok(Response::builder().status(status).body(text.into()).unwrap_or_default())
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    server.serve_connection(TokioIo::new(stream), service_fn(answer)).await
                });
            }
        });
        for is_http2 in [false, true] {
            let client =
                Client::builder(TokioExecutor::new()).http2_only(is_http2).build_http::<Full<Bytes>>();
            let requests = (0..6_usize).map(|index| {
                let path = if index == 3 { "none".to_owned() } else { format!("path/{index}") };
                let request =
                    Request::post(format!("http://{address}/{path}")).body(vec![b'a'; index * 3000].into());
                let client = client.clone();
                tokio::spawn(async move {
                    let response = client.request(request?).await?;
                    let (status, version) = (response.status(), response.version());
                    let body = response.into_body().collect().await?.to_bytes();
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(format!(
                        "{version:?} {status} {}",
                        String::from_utf8_lossy(&body)
                    ))
                })
            });
            for request in requests.collect::<Vec<_>>() {
                println!("{}", request.await??);
            }
        }
        Ok(())
    })
}
