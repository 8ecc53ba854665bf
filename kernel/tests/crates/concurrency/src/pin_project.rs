//! A future with pinned fields.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::executor::block_on;
use futures::{FutureExt, Stream, StreamExt, stream};
use pin_project::{pin_project, pinned_drop};

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

pub fn run() -> crate_uses::Result {
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
