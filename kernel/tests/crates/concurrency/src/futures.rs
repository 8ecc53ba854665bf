//! Streams, combinators, channels and a pool of threads.

use std::cell::Cell;

use futures::channel::{mpsc, oneshot};
use futures::executor::{LocalPool, ThreadPool, block_on};
use futures::future::{Either, join_all, select};
use futures::stream::{self, FuturesUnordered};
use futures::task::{LocalSpawnExt, SpawnExt};
use futures::{FutureExt, SinkExt, StreamExt, TryStreamExt, pin_mut};

pub fn run() -> crate_uses::Result {
    let pool = ThreadPool::builder().pool_size(3).create()?;
    let handles = (0..20_u64).map(|number| pool.spawn_with_handle(async move { number * number }));
    println!("{:?}", block_on(join_all(handles.collect::<Result<Vec<_>, _>>()?)));
    let (mut sender, receiver) = mpsc::channel(1);
    pool.spawn(async move {
        for number in 0..100 {
            if sender.send(number).await.is_err() {
                return;
            }
        }
    })?;
    println!("{:?}", block_on(receiver.chunks(30).map(|chunk| chunk.iter().sum::<i32>()).collect::<Vec<_>>()));
    let parsed = stream::iter(["1", "2", "x", "4"]).map(|text| text.parse::<u8>());
    println!("{:?}", block_on(parsed.try_fold(0, |sum, number| async move { Ok(sum + number) })));
    let (send, receive) = oneshot::channel();
    let first = async {
        let never = futures::future::pending::<()>();
        pin_mut!(receive, never);
        match select(receive, never).await {
            Either::Left((sent, _)) => sent,
            Either::Right(_) => Err(oneshot::Canceled),
        }
    };
    pool.spawn_ok(async move { let _ = send.send("sent"); });
    println!("{}", block_on(first.map(|sent| format!("{sent:?}"))));
    let mut local = LocalPool::new();
    let steps = std::rc::Rc::new(Cell::new(0));
    let shared = steps.clone();
    local.spawner().spawn_local(async move { shared.set(shared.get() + 1) })?;
    local.run();
    let mut unordered: FuturesUnordered<_> = (0..5).map(|number| async move { number * 2 }).collect();
    let mut doubled = Vec::new();
    block_on(async { while let Some(number) = unordered.next().await { doubled.push(number) } });
    doubled.sort();
    println!("{} {doubled:?}", steps.get());
    Ok(())
}
