//! Futures and streams, without a runtime for input and output.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::{mpsc, oneshot};
use futures::executor::{LocalPool, ThreadPool, block_on};
use futures::future::{Either, join_all, select};
use futures::stream::FuturesUnordered;
use futures::task::{LocalSpawnExt, SpawnExt};
use futures::{FutureExt, SinkExt, Stream, StreamExt, TryStreamExt, pin_mut, stream};
use pin_project::{pin_project, pinned_drop};

#[async_trait]
trait Store: Send + Sync {
    async fn load(&self, key: &str) -> Option<String>;

    async fn load_all(&self, keys: &[&str]) -> Vec<Option<String>> {
        let mut found = Vec::new();
        for key in keys {
            found.push(self.load(key).await);
        }
        found
    }
}

struct Memory(BTreeMap<String, String>);

struct Slow(Box<dyn Store>);

#[async_trait]
impl Store for Memory {
    async fn load(&self, key: &str) -> Option<String> {
        self.0.get(key).cloned()
    }
}

#[async_trait]
impl Store for Slow {
    async fn load(&self, key: &str) -> Option<String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.load(key).await.map(|value| value.to_uppercase())
    }
}

/// Asynchronous methods of trait objects.
pub fn async_trait() -> crate_uses::Result {
    let memory = Memory([("a".to_owned(), "alpha".to_owned())].into());
    let stores: Vec<Box<dyn Store>> =
        vec![Box::new(Slow(Box::new(memory))), Box::new(Memory(BTreeMap::new()))];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for store in stores {
        println!("{:?}", runtime.block_on(store.load_all(&["a", "b"])));
    }
    Ok(())
}

/// Streams, combinators, channels and a pool of threads.
pub fn futures() -> crate_uses::Result {
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
    println!(
        "{:?}",
        block_on(receiver.chunks(30).map(|chunk| chunk.iter().sum::<i32>()).collect::<Vec<_>>())
    );
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
    pool.spawn_ok(async move {
        let _ = send.send("sent");
    });
    println!("{}", block_on(first.map(|sent| format!("{sent:?}"))));
    let mut local = LocalPool::new();
    let steps = std::rc::Rc::new(Cell::new(0));
    let shared = steps.clone();
    local.spawner().spawn_local(async move { shared.set(shared.get() + 1) })?;
    local.run();
    let mut unordered: FuturesUnordered<_> = (0..5).map(|number| async move { number * 2 }).collect();
    let mut doubled = Vec::new();
    block_on(async {
        while let Some(number) = unordered.next().await {
            doubled.push(number)
        }
    });
    doubled.sort();
    println!("{} {doubled:?}", steps.get());
    Ok(())
}

#[pin_project(PinnedDrop)]
struct Counted<S> {
    #[pin]
    stream: S,
    count: usize,
}

#[pinned_drop]
impl<S> PinnedDrop for Counted<S> {
    fn drop(self: Pin<&mut Self>) {
        println!("dropped after {}", self.project().count);
    }
}

impl<S: Stream> Stream for Counted<S> {
    type Item = (usize, S::Item);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let next = this.stream.poll_next(context);
        next.map(|item| {
            *this.count += 1;
            item.map(|item| (*this.count, item))
        })
    }
}

#[pin_project(project = StateProjection)]
enum State<F> {
    Running(#[pin] F),
    Done,
}

/// A future with pinned fields.
pub fn pin_project() -> crate_uses::Result {
    let words = stream::iter(["a", "b", "c"]);
    println!("{:?}", block_on(Counted { stream: words, count: 0 }.collect::<Vec<_>>()));
    let mut state = Box::pin(State::Running(async { 5 }));
    for _ in 0..2 {
        let result = match state.as_mut().project() {
            StateProjection::Running(future) => future.now_or_never(),
            StateProjection::Done => None,
        };
        println!("{result:?}");
        state.set(State::Done);
    }
    Ok(())
}
