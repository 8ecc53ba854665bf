//! Channels between threads and tasks.

use std::thread;

use async_channel::{TryRecvError, TrySendError};
use futures::executor::block_on;

pub fn run() -> crate_uses::Result {
    let (sender, receiver) = async_channel::bounded::<u64>(4);
    let producers: Vec<_> = (0..3)
        .map(|index| {
            let sender = sender.clone();
            thread::spawn(move || (0..500).try_for_each(|step| sender.send_blocking(index * 1000 + step)))
        })
        .collect();
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let receiver = receiver.clone();
            thread::spawn(move || {
                block_on(async {
                    let mut sum = 0;
                    while let Ok(number) = receiver.recv().await {
                        sum += number;
                    }
                    sum
                })
            })
        })
        .collect();
    for producer in producers {
        producer.join().map_err(|_| "panic")??;
    }
    sender.close();
    let sums = consumers.into_iter().map(|consumer| consumer.join().unwrap_or(0));
    println!("{}", sums.sum::<u64>());
    let (sender, receiver) = async_channel::bounded(1);
    sender.try_send("a")?;
    println!("{:?} {}", sender.try_send("b"), matches!(sender.try_send("b"), Err(TrySendError::Full("b"))));
    drop(sender);
    println!("{:?} {:?}", receiver.try_recv(), receiver.try_recv() == Err(TryRecvError::Closed));
    Ok(())
}
