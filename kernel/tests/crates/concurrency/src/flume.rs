//! Channels with selection and streams.

use std::thread;

use flume::{Selector, TrySendError};
use futures::StreamExt;
use futures::executor::block_on;

pub fn run() -> crate_uses::Result {
    let (sender, receiver) = flume::bounded::<u64>(2);
    let threads: Vec<_> = (1..=3)
        .map(|factor| {
            let sender = sender.clone();
            thread::spawn(move || (0..300).try_for_each(|number| sender.send(number * factor)))
        })
        .collect();
    drop(sender);
    println!("{}", block_on(receiver.into_stream().fold(0, |sum, number| async move { sum + number })));
    for thread in threads {
        thread.join().map_err(|_| "panic")??;
    }
    let (zero, rendezvous) = flume::bounded(0);
    let (text, texts) = flume::unbounded();
    text.send("text")?;
    println!("{}", matches!(zero.try_send(1), Err(TrySendError::Full(1))));
    let chosen = Selector::new()
        .recv(&rendezvous, |number| format!("{number:?}"))
        .recv(&texts, |text| format!("{text:?}"))
        .wait();
    println!("{chosen}");
    drop(text);
    println!("{:?} {:?}", texts.recv(), rendezvous.drain().len());
    Ok(())
}
