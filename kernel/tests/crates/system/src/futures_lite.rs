//! Combinators of futures, streams and asynchronous I/O.

use futures_lite::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Cursor};
use futures_lite::{StreamExt, future, stream};

pub fn run() -> crate_uses::Result {
    future::block_on(async {
        let numbers = stream::iter(1..=10).filter(|number| number % 3 != 0).map(|number| number * number);
        println!("{:?}", numbers.collect::<Vec<_>>().await);
        println!("{:?}", future::zip(async { 1 }, async { "two" }).await);
        println!("{}", future::or(future::pending(), async { "ready" }).await);
        let mut lines = BufReader::with_capacity(4, Cursor::new("one\ntwo\nthree")).lines();
        while let Some(line) = lines.try_next().await? {
            println!("{line}");
        }
        let mut text = String::new();
        Cursor::new("a").chain(Cursor::new("b")).read_to_string(&mut text).await?;
        println!("{text}");
        Ok(())
    })
}
