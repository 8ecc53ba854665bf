//! QUIC: streams of a connection that a server echoes, datagrams, and a client that does not trust the
//! server.

use std::sync::Arc;

use ::quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ::quinn::{ClientConfig, Connection, Endpoint, ServerConfig, VarInt};

use crate::certificate::Certificate;

/// Length of what the server echoes.
const LENGTH: usize = 1 << 20;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Echoes datagrams and streams until the client closes the connection.
async fn serve(connection: Connection) -> Result<(), Error> {
    let datagrams = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.read_datagram().await {
            let _ = datagrams.send_datagram(datagram);
        }
    });
    loop {
        let (mut sender, mut receiver) = connection.accept_bi().await?;
        tokio::spawn(async move {
            while let Some(chunk) = receiver.read_chunk(usize::MAX, true).await? {
                sender.write_chunk(chunk.bytes).await?;
            }
            sender.finish()?;
            Ok::<_, Error>(())
        });
    }
}

async fn echo(connection: &Connection, data: Vec<u8>) -> Result<Vec<u8>, Error> {
    let (mut sender, mut receiver) = connection.open_bi().await?;
    let task = tokio::spawn(async move {
        sender.write_all(&data).await?;
        sender.finish()?;
        Ok::<_, Error>(())
    });
    let echoed = receiver.read_to_end(LENGTH).await?;
    task.await??;
    Ok(echoed)
}

fn client(certificate: &Certificate, protocol: &str) -> Result<Endpoint, Error> {
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let crypto = QuicClientConfig::try_from(certificate.client(&[protocol])?)?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    Ok(endpoint)
}

async fn talk() -> Result<(), Error> {
    let certificate = Certificate::new()?;
    let crypto = QuicServerConfig::try_from(certificate.server(&["echo"])?)?;
    let server = Endpoint::server(ServerConfig::with_crypto(Arc::new(crypto)), "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let accepting = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move { serve(incoming.await?).await });
        }
    });
    let endpoint = client(&certificate, "echo")?;
    let connection = endpoint.connect(address, "localhost")?.await?;
    println!("{:?}", connection.remote_address() == address);
    let data: Vec<u8> = crate_uses::numbers(1).take(LENGTH / 4).flat_map(u32::to_le_bytes).collect();
    let echoed = echo(&connection, data.clone()).await?;
    println!("{} {} {}", echoed.len(), crate_uses::digest(&echoed), echoed == data);
    let streams = (0..20_usize).map(|index| {
        let connection = connection.clone();
        tokio::spawn(async move { echo(&connection, vec![index as u8; index * 1000]).await })
    });
    for stream in streams.collect::<Vec<_>>() {
        let echoed = stream.await??;
        print!("{} ", echoed.len());
        crate_uses::ensure(
            echoed.iter().all(|byte| usize::from(*byte) * 1000 == echoed.len()),
            "other data",
        )?;
    }
    println!("{:?}", connection.max_datagram_size().is_some());
    connection.send_datagram("unreliable".into())?;
    println!("{:?}", connection.read_datagram().await?);
    connection.close(VarInt::from_u32(7), b"done");
    println!("{}", connection.closed().await);
    let stranger = client(&Certificate::new()?, "echo")?;
    println!("{}", stranger.connect(address, "localhost")?.await.is_err());
    let other = client(&certificate, "other")?;
    println!("{}", other.connect(address, "localhost")?.await.is_err());
    endpoint.wait_idle().await;
    server.close(VarInt::from_u32(0), b"");
    println!("{}", server.accept().await.is_none());
    Ok(())
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(talk())
}
