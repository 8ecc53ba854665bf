//! Streams of tokio's channels and timers.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{IntervalStream, ReceiverStream, WatchStream};
use tokio_stream::{StreamExt, StreamMap};

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            for number in 0..20 {
                let _ = sender.send(number).await;
            }
        });
        let even = ReceiverStream::new(receiver).filter(|number| number % 2 == 0).map(|number| number * 10);
        println!("{:?}", even.collect::<Vec<_>>().await);
        let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(1)));
        println!("{}", ticks.take(5).fold(0, |count, _| count + 1).await);
        let mut map = StreamMap::new();
        map.insert("a", tokio_stream::iter(0..3));
        map.insert("b", tokio_stream::iter(5..6));
        let mut all: Vec<_> = map.collect().await;
        all.sort();
        println!("{all:?}");
        let slow = tokio_stream::pending::<u8>().timeout(Duration::from_millis(2));
        tokio::pin!(slow);
        println!("{:?}", slow.next().await.map(|item| item.is_err()));
        let (sender, receiver) = watch::channel("first");
        let mut values = WatchStream::new(receiver);
        println!("{:?}", values.next().await);
        sender.send("second")?;
        drop(sender);
        println!("{:?} {:?}", values.next().await, values.next().await);
        Ok(())
    })
}
