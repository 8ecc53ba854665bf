//! Values by key. Some of them expire.

use std::collections::HashMap;
use std::time::Instant;

/// Values by key. Time is an argument, so that tests need not wait.
#[derive(Debug, Default)]
pub struct Store {
    entries: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    value: String,
    /// The value is invisible from this instant on.
    expires: Option<Instant>,
}

impl Entry {
    fn is_alive(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl Store {
    /// Sets a value, which has no expiry then.
    pub fn set(&mut self, key: &str, value: &str) {
        let entry = Entry { value: value.to_owned(), expires: None };
        self.entries.insert(key.to_owned(), entry);
    }

    /// The value of a key, unless it has expired.
    pub fn get(&self, key: &str, now: Instant) -> Option<&str> {
        let entry = self.entries.get(key).filter(|entry| entry.is_alive(now))?;
        Some(&entry.value)
    }

    /// Lets a value expire at an instant; returns whether there was a value.
    pub fn expire(&mut self, key: &str, at: Instant, now: Instant) -> bool {
        let entry = self.entries.get_mut(key).filter(|entry| entry.is_alive(now));
        entry.map(|entry| entry.expires = Some(at)).is_some()
    }

    /// Removes a value; returns whether there was one.
    pub fn remove(&mut self, key: &str, now: Instant) -> bool {
        self.entries.remove(key).is_some_and(|entry| entry.is_alive(now))
    }

    /// Removes the values that have expired.
    pub fn sweep(&mut self, now: Instant) {
        self.entries.retain(|_, entry| entry.is_alive(now));
    }

    /// Number of values, including those that have expired since the last sweep.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no value.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Store;

    #[test]
    fn value_is_found_until_it_is_removed() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.set("colour", "blue");
        assert_eq!(store.get("colour", now), Some("blue"));
        assert!(store.remove("colour", now));
        assert_eq!(store.get("colour", now), None);
    }

    #[test]
    fn expired_value_is_invisible_and_swept() {
        let (mut store, now) = (Store::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        store.set("colour", "blue");
        assert!(store.expire("colour", later, now));
        assert_eq!(store.get("colour", now), Some("blue"));
        assert_eq!(store.get("colour", later), None);
        store.sweep(later);
        assert!(store.is_empty());
    }
}
