//! Tests of the store. They compare it with a map, and cut and damage the log at any position.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

use proptest::prelude::*;
use tempfile::{TempDir, tempdir, tempdir_in};

use super::{DAMAGED, LOG, MAGIC, NEW_LOG, Store};

/// Returns a folder in memory if the host has such a place, because notes are made durable quickly there.
fn folder() -> TempDir {
    tempdir_in("/dev/shm").or_else(|_| tempdir()).unwrap()
}

fn open(folder: &TempDir) -> (Store, u64) {
    Store::open(folder.path()).unwrap()
}

fn contents(store: &mut Store) -> BTreeMap<String, String> {
    let keys: Vec<String> = store.keys("").map(str::to_owned).collect();
    keys.into_iter().map(|key| (key.clone(), store.get(&key).unwrap().unwrap())).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(String, String),
    Remove(String),
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => ("[a-d]", ".{0,30}").prop_map(|(key, text)| Step::Put(key, text)),
        3 => "[a-d]".prop_map(Step::Remove),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #[test]
    fn store_is_a_map(steps in proptest::collection::vec(step(), 0..30)) {
        let folder = folder();
        let (mut store, mut map) = (open(&folder).0, BTreeMap::new());
        for step in steps {
            match step {
                Step::Put(key, text) => {
                    store.put(&key, &text).unwrap();
                    map.insert(key, text);
                }
                Step::Remove(key) => prop_assert_eq!(store.remove(&key).unwrap(), map.remove(&key).is_some()),
                Step::Compact => drop(store.compact().unwrap()),
                Step::Reopen => {
                    drop(store);
                    let (reopened, damaged) = open(&folder);
                    prop_assert_eq!(damaged, 0);
                    store = reopened;
                }
            }
            prop_assert_eq!(contents(&mut store), map.clone());
        }
    }

    #[test]
    fn cut_log_has_the_notes_before_the_cut(texts in proptest::collection::vec(".{0,20}", 1..8), at: prop::sample::Index) {
        let folder = folder();
        let (mut store, mut ends) = (open(&folder).0, Vec::new());
        for (key, text) in texts.iter().enumerate() {
            store.put(&key.to_string(), text).unwrap();
            ends.push(store.end);
        }
        drop(store);
        let bytes = fs::read(folder.path().join(LOG)).unwrap();
        let cut = at.index(bytes.len() + 1);
        fs::write(folder.path().join(LOG), bytes.split_at(cut).0).unwrap();
        let (mut store, damaged) = open(&folder);
        let complete = ends.iter().filter(|end| **end <= cut as u64).count();
        let wanted = texts.into_iter().take(complete).enumerate().map(|(key, text)| (key.to_string(), text));
        prop_assert_eq!(contents(&mut store), wanted.collect::<BTreeMap<_, _>>());
        if damaged > 0 {
            prop_assert_eq!(fs::metadata(folder.path().join(DAMAGED)).unwrap().len(), damaged);
        }
        // The store continues after the complete records.
        store.put("next", "text").unwrap();
        drop(store);
        let (mut store, damaged) = open(&folder);
        prop_assert_eq!((store.get("next").unwrap(), damaged), (Some("text".to_owned()), 0));
    }
}

#[test]
fn log_is_compacted_by_itself() {
    let folder = folder();
    let mut store = open(&folder).0;
    let text = "x".repeat(100_000);
    for _ in 0..30 {
        store.put("a", &text).unwrap();
    }
    assert!(store.end < 2 << 20, "{}", store.end);
    assert_eq!(store.get("a").unwrap().unwrap(), text);
}

#[test]
fn crash_while_compacting_loses_nothing() {
    let folder = folder();
    let mut store = open(&folder).0;
    store.put("a", "b").unwrap();
    drop(store);
    fs::write(folder.path().join(NEW_LOG), "incomplete").unwrap();
    let mut store = open(&folder).0;
    assert_eq!(store.get("a").unwrap().as_deref(), Some("b"));
    assert!(!folder.path().join(NEW_LOG).exists());
}

#[test]
fn other_files_are_refused_unchanged() {
    let folder = folder();
    fs::write(folder.path().join(LOG), "an important letter").unwrap();
    assert_eq!(Store::open(folder.path()).unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(fs::read(folder.path().join(LOG)).unwrap(), b"an important letter");
}

#[test]
fn store_is_open_once() {
    let folder = folder();
    let _store = open(&folder).0;
    assert_eq!(Store::open(folder.path()).unwrap_err().kind(), ErrorKind::ResourceBusy);
}

#[test]
fn log_begins_with_its_format() {
    let folder = folder();
    drop(open(&folder));
    assert_eq!(fs::read(folder.path().join(LOG)).unwrap(), MAGIC);
}
