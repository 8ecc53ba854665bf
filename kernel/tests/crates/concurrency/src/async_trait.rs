//! Asynchronous methods of trait objects.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

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

pub fn run() -> crate_uses::Result {
    let memory = Memory([("a".to_owned(), "alpha".to_owned())].into());
    let stores: Vec<Box<dyn Store>> = vec![Box::new(Slow(Box::new(memory))), Box::new(Memory(BTreeMap::new()))];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for store in stores {
        println!("{:?}", runtime.block_on(store.load_all(&["a", "b"])));
    }
    Ok(())
}
