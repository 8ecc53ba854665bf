//! TLS on tokio: many clients of a server at once, with a protocol that both name.

use std::net::SocketAddr;
use std::sync::Arc;

use ::tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::certificate::Certificate;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Answers with the bytes in reverse order.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> Result<(), Error> {
    loop {
        let (socket, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let mut stream = acceptor.accept(socket).await?;
            let mut data = Vec::new();
            stream.read_to_end(&mut data).await?;
            data.reverse();
            stream.write_all(&data).await?;
            stream.shutdown().await?;
            Ok::<_, Error>(())
        });
    }
}

async fn ask(connector: TlsConnector, address: SocketAddr, data: Vec<u8>) -> Result<String, Error> {
    let socket = TcpStream::connect(address).await?;
    let mut stream = connector.connect("localhost".try_into()?, socket).await?;
    stream.write_all(&data).await?;
    stream.shutdown().await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    let protocol = stream.get_ref().1.alpn_protocol().map(String::from_utf8_lossy);
    Ok(format!("{protocol:?} {} {}", reply.len(), crate_uses::digest(&reply)))
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let certificate = Certificate::new()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(Arc::new(certificate.server(&["first", "second"])?));
        tokio::spawn(serve(listener, acceptor));
        let connector = TlsConnector::from(Arc::new(certificate.client(&["second"])?));
        let asked = (1..30_u32).map(|index| {
            let data = crate_uses::numbers(index.into()).take(index as usize * 500);
            let data = data.flat_map(u32::to_le_bytes).collect();
            tokio::spawn(ask(connector.clone(), address, data))
        });
        for asked in asked.collect::<Vec<_>>() {
            println!("{}", asked.await??);
        }
        let other = TlsConnector::from(Arc::new(certificate.client(&["third"])?));
        println!("{:?}", ask(other, address, vec![1]).await.map_err(|error| error.to_string()));
        Ok(())
    })
}
