//! Channels.

use std::thread;
use std::time::Duration;

use async_channel::TryRecvError;
use crossbeam_channel::{RecvTimeoutError, after, bounded, never, select, tick, unbounded};
use flume::Selector;
use futures::StreamExt;
use futures::executor::block_on;

/// Channels between threads and tasks.
pub fn async_channel() -> crate_uses::Result {
    use async_channel::TrySendError;

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

/// Channels that can be selected.
pub fn crossbeam_channel() -> crate_uses::Result {
    let (numbers, more) = (bounded::<u32>(0), unbounded::<String>());
    let sender = thread::spawn(move || {
        for number in 0..200 {
            if number % 3 == 0 {
                more.0.send(number.to_string())?;
            } else {
                numbers.0.send(number).map_err(|_| crossbeam_channel::SendError(String::new()))?;
            }
        }
        Ok::<_, crossbeam_channel::SendError<String>>(())
    });
    let (mut sum, mut texts, mut closed) = (0, 0, 0);
    let (mut first, mut second) = (numbers.1, more.1);
    while closed < 2 {
        select! {
            recv(first) -> number => match number {
                Ok(number) => sum += number,
                Err(_) => { closed += 1; first = never(); }
            },
            recv(second) -> text => match text {
                Ok(text) => texts += text.len(),
                Err(_) => { closed += 1; second = never(); }
            },
        }
    }
    sender.join().map_err(|_| "panic")??;
    println!("{sum} {texts}");
    let ticks = tick(Duration::from_millis(1));
    println!("{}", (0..5).filter(|_| ticks.recv().is_ok()).count());
    let (_kept, silent) = bounded::<u8>(1);
    println!("{}", silent.recv_timeout(Duration::from_millis(2)) == Err(RecvTimeoutError::Timeout));
    select! {
        recv(silent) -> _ => println!("a message"),
        recv(after(Duration::from_millis(2))) -> _ => println!("timeout"),
    }
    Ok(())
}

/// Channels with selection and streams.
pub fn flume() -> crate_uses::Result {
    use flume::TrySendError;

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
