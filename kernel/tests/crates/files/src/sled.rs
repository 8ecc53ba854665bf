//! A database of trees for threads, which is opened again, but not twice at a time.

use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::Folder;

/// How long a database that was dropped may stay locked: until its threads have ended.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

pub fn run() -> crate_uses::Result {
    let folder = Folder::new("sled")?;
    {
        let database = sled::Config::new().path(folder.path()).cache_capacity(1 << 20).open()?;
        let threads: Vec<_> = (0..3_u32)
            .map(|index| {
                let tree = database.open_tree(format!("tree {}", index % 2));
                thread::spawn(move || -> sled::Result<()> {
                    let tree = tree?;
                    for number in 0..300 {
                        tree.insert((number * 3 + index).to_be_bytes(), number.to_string().as_bytes())?;
                        tree.update_and_fetch("sum", |old| {
                            let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
                            Some((old + 1).to_be_bytes().to_vec())
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "panic")??;
        }
        database.flush()?;
    }
    let database = reopen(folder.path())?;
    println!("opened twice: {}", sled::open(folder.path()).is_ok());
    for name in ["tree 0", "tree 1"] {
        let tree = database.open_tree(name)?;
        println!("{} {:?} {:?}", tree.len(), tree.get("sum")?, tree.get(7_u32.to_be_bytes())?);
        println!(
            "{:?}",
            tree.range(30_u32.to_be_bytes()..36_u32.to_be_bytes()).values().collect::<Result<Vec<_>, _>>()?
        );
    }
    println!("{:?}", database.compare_and_swap("a", None::<&str>, Some("b"))?);
    println!("{:?}", database.compare_and_swap("a", Some("x"), Some("y"))?.is_err());
    Ok(())
}

fn reopen(folder: &Path) -> sled::Result<sled::Db> {
    let start = Instant::now();
    loop {
        match sled::open(folder) {
            Err(sled::Error::Io(error))
                if error.kind() == ErrorKind::Other && start.elapsed() < LOCK_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}
