//! Walks a tree as `.gitignore` says, also on several threads.

use std::fs;
use std::sync::Mutex;

use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use ignore::{WalkBuilder, WalkState};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let folder = Folder::with_tree("ignore")?;
    fs::create_dir(folder.path().join(".git"))?;
    fs::write(folder.path().join(".gitignore"), "build/*\n!build/keep.rs\n*.txt\n")?;
    let names = |builder: &mut WalkBuilder| -> Result<Vec<String>, ignore::Error> {
        let entries = builder.sort_by_file_name(Ord::cmp).build();
        entries.map(|entry| Ok(folder.relative(entry?.path()))).collect()
    };
    println!("{:?}", names(&mut WalkBuilder::new(folder.path()))?);
    println!("{:?}", names(WalkBuilder::new(folder.path()).standard_filters(false).max_depth(Some(1)))?);
    let types = TypesBuilder::new().add_defaults().select("rust").build()?;
    println!("{:?}", names(WalkBuilder::new(folder.path()).types(types))?);
    let overrides = OverrideBuilder::new(folder.path()).add("*.txt")?.build()?;
    println!("{:?}", names(WalkBuilder::new(folder.path()).overrides(overrides))?);
    let found = Mutex::new(Vec::new());
    WalkBuilder::new(folder.path()).threads(3).same_file_system(true).build_parallel().run(|| {
        Box::new(|entry| {
            found.lock().expect("not poisoned").push(entry.map(|entry| folder.relative(entry.path())));
            WalkState::Continue
        })
    });
    let found = found.into_inner().map_err(|_| "poisoned")?;
    let mut found = found.into_iter().collect::<Result<Vec<_>, ignore::Error>>()?;
    found.sort();
    println!("{found:?}");
    Ok(())
}
