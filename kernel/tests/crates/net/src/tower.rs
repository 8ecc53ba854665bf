//! Services in layers: limits, timeouts, retries and buffers.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (now, peak) = (running.clone(), most.clone());
        let work = service_fn(move |number: u64| {
            let (now, peak) = (now.clone(), peak.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                if number == 5 { Err(BoxError::from("five")) } else { Ok(number * number) }
            }
        });
        let service = ServiceBuilder::new()
            .concurrency_limit(3)
            .map_response(|number: u64| format!("<{number}>"))
            .timeout(Duration::from_secs(60))
            .service(work);
        let calls: Vec<_> = (0..10).map(|number| tokio::spawn(service.clone().oneshot(number))).collect();
        for call in calls {
            println!("{:?}", call.await?.map_err(|error| error.to_string()));
        }
        println!("{}", most.load(Ordering::SeqCst) <= 3);
        let never = service_fn(|(): ()| std::future::pending::<Result<(), BoxError>>());
        let never = ServiceBuilder::new().timeout(Duration::from_millis(5)).service(never);
        println!("{:?}", never.oneshot(()).await.map_err(|error| error.to_string()));
        let mut chained = service_fn(|text: &'static str| ready(text.parse::<u8>()))
            .map_request(|text: &'static str| text.trim())
            .boxed();
        println!("{:?}", chained.ready().await?.call(" 12 ").await);
        println!(
            "{:?}",
            chained
                .and_then(|number| ready(Ok::<u8, std::num::ParseIntError>(number + 1)))
                .oneshot("x")
                .await
        );
        Ok(())
    })
}
