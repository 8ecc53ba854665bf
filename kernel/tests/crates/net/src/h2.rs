//! HTTP/2: several streams of a connection at once, in both directions.

use ::h2::{client, server};
use ::http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let mut connection = server::handshake(stream).await?;
            while let Some(accepted) = connection.accept().await {
                let (request, mut respond) = accepted?;
                tokio::spawn(async move {
                    let path = request.uri().path().to_owned();
                    let mut body = request.into_body();
                    let mut length = 0;
                    while let Some(Ok(chunk)) = body.data().await {
                        length += chunk.len();
                        let _ = body.flow_control().release_capacity(chunk.len());
                    }
                    let response = Response::builder().header("x-path", path).body(());
                    if let Ok(mut stream) = respond.send_response(response.unwrap_or_default(), false) {
                        let _ = stream.send_data(format!("{length} bytes").into(), true);
                    }
                });
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        let (sender, connection) = client::handshake(TcpStream::connect(address).await?).await?;
        tokio::spawn(connection);
        let mut requests = Vec::new();
        for index in 0..5 {
            let mut sender = sender.clone().ready().await?;
            let request = Request::post(format!("http://a/stream/{index}")).body(())?;
            let (response, mut stream) = sender.send_request(request, false)?;
            stream.send_data(vec![b'x'; index * 1500].into(), true)?;
            requests.push(response);
        }
        for response in requests {
            let response = response.await?;
            print!("{:?} {:?} ", response.status(), response.headers()["x-path"]);
            let data = response.into_body().data().await.ok_or("no data")??;
            println!("{}", str::from_utf8(&data)?);
        }
        Ok(())
    })
}
