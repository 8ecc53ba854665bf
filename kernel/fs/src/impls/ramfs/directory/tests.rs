//! Tests of directories against a map.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hermit_interface::Errno;
use proptest::prelude::*;

use super::{Directory, DirectoryEntry, EntryName, LAST_SHIFT, MAX_LIST, Node, Removed, SEQUENCE};
use crate::interface::{FileType, Ino, Time};

fn add(directory: &mut Directory, name: &str, ino: u64) -> Result<(), Errno> {
    let vacancy = directory.prepare(name.as_bytes())?;
    directory.insert(vacancy, EntryName::new(name.as_bytes()).unwrap(), (Ino(ino), FileType::Regular))
}

fn next(directory: &Directory, position: u64) -> Option<(String, u64)> {
    let entry = directory.entry_from(position)?;
    Some((String::from_utf8(entry.name.to_vec()).unwrap(), entry.next()))
}

fn names(directory: &Directory) -> Vec<String> {
    let mut position = 0;
    let mut names = Vec::new();
    while let Some((name, next)) = next(directory, position) {
        position = next;
        names.push(name);
    }
    names
}

proptest! {
    #[test]
    fn directory_behaves_as_a_map(steps in prop::collection::vec((0..100_u64, 0..5_u8), 1..if cfg!(miri) { 40 } else { 300 })) {
        let (mut directory, mut map) = (Directory::new(Ino::ROOT, Time::default()), BTreeMap::new());
        for (number, step) in steps {
            let name = format!("name{number}");
            match step {
                0 => {
                    let removed = directory.remove(name.as_bytes()).map(|entry| entry.ino.0);
                    prop_assert_eq!(removed.ok(), map.remove(&name));
                }
                1 => {
                    let before = directory.replace(name.as_bytes(), Ino(7), FileType::Symlink);
                    prop_assert_eq!(before.ok().map(|(ino, _)| ino.0), map.get(&name).copied());
                    map.entry(name).and_modify(|ino| *ino = 7);
                }
                _ => {
                    let expected = if map.contains_key(&name) { Err(Errno::EEXIST) } else { Ok(()) };
                    prop_assert_eq!(add(&mut directory, &name, number), expected);
                    map.entry(name).or_insert(number);
                }
            }
            prop_assert_eq!(directory.len(), map.len() as u64);
        }
        for (name, ino) in &map {
            prop_assert_eq!(directory.find(name.as_bytes()).map(|entry| entry.ino.0), Ok(*ino));
        }
        prop_assert_eq!(names(&directory).into_iter().collect::<BTreeSet<_>>(), map.keys().cloned().collect());
        prop_assert_eq!(names(&directory).len(), map.len());
        for name in map.keys() {
            directory.remove(name.as_bytes()).unwrap();
        }
        prop_assert!(directory.root.is_empty() && directory.is_empty());
    }
}

#[test]
fn entries_that_stay_are_read_once_whatever_comes_and_goes() {
    const COUNT: usize = if cfg!(miri) { 60 } else { 1000 };
    let mut directory = Directory::new(Ino::ROOT, Time::default());
    for number in 0..COUNT as u64 {
        add(&mut directory, &format!("stays{number}"), number).unwrap();
    }
    let (mut position, mut seen) = (0, BTreeSet::new());
    for number in 0.. {
        let Some((name, next)) = next(&directory, position) else { break };
        position = next;
        if name.starts_with("stays") {
            assert!(seen.insert(name), "read twice");
        } else {
            directory.remove(name.as_bytes()).unwrap();
        }
        add(&mut directory, &format!("comes{number}"), number).unwrap();
        if number % 3 == 0 {
            // It may have been removed above.
            let _: Result<Removed, Errno> = directory.remove(format!("comes{number}").as_bytes());
        }
    }
    assert_eq!(seen.len(), COUNT);
}

/// Length of the longest list in the tree.
fn longest(node: &Node) -> usize {
    match node {
        Node::List(entries) => entries.len(),
        Node::Branch(children) => children.iter().map(longest).max().unwrap(),
    }
}

#[test]
fn lists_stay_short_and_names_of_one_hash_are_told_apart() {
    let mut directory = Directory::new(Ino::ROOT, Time::default());
    for number in 0..if cfg!(miri) { 200 } else { 10_000 } {
        add(&mut directory, &format!("{number}"), number).unwrap();
    }
    assert!(longest(&directory.root) <= MAX_LIST);

    let mut root = Node::empty();
    let hash = 0x123 << LAST_SHIFT;
    for sequence in 0..=SEQUENCE {
        let key = hash | sequence;
        root.reserve(key).unwrap();
        let name = EntryName::new(format!("{sequence}").as_bytes()).unwrap();
        root.list_mut(key).unwrap().push(DirectoryEntry {
            key,
            ino: Ino(sequence),
            file_type: FileType::Regular,
            name,
        });
    }
    assert_eq!(longest(&root), 128);
    let mut remove =
        |is_removable| root.remove((hash, b"77"), is_removable, Node::TOP).map(|removed| removed.ino);
    assert_eq!(remove(|_| false), Err(Errno::EISDIR));
    assert_eq!(remove(|_| true), Ok(Ino(77)));
    assert_eq!(remove(|_| true), Err(Errno::ENOENT));
}
