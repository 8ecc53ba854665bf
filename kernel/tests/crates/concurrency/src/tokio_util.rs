//! Frames on a stream of bytes, and cancellation.

use futures::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, FramedRead, LengthDelimitedCodec, LinesCodec};
use tokio_util::sync::CancellationToken;

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (client, server) = tokio::io::duplex(16);
        let echo = tokio::spawn(async move {
            let mut frames = Framed::new(server, LengthDelimitedCodec::new());
            while let Some(Ok(frame)) = frames.next().await {
                frames.send(frame.iter().rev().copied().collect::<Bytes>()).await?;
            }
            Ok::<_, std::io::Error>(())
        });
        let mut frames = Framed::new(client, LengthDelimitedCodec::new());
        for text in ["", "short", &"a long frame ".repeat(50)] {
            frames.send(Bytes::from(text.to_owned())).await?;
            let reply = frames.next().await.ok_or("closed")??;
            println!("{} {}", reply.len(), crate_uses::digest(&reply));
        }
        drop(frames);
        echo.await??;
        let (mut writer, reader) = tokio::io::duplex(64);
        writer.write_all(b"one\r\ntwo two two two\nthree").await?;
        drop(writer);
        let lines = FramedRead::new(reader, LinesCodec::new_with_max_length(10));
        println!("{:?}", lines.map(|line| line.map_err(|error| error.to_string())).collect::<Vec<_>>().await);
        let token = CancellationToken::new();
        let child = token.child_token();
        let task = tokio::spawn(async move { child.run_until_cancelled(std::future::pending::<()>()).await });
        token.cancel();
        println!("{:?}", task.await?);
        Ok(())
    })
}
