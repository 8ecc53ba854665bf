//! Trees of files: walks and copies.

use std::fs;
use std::sync::Mutex;

use fs_extra::dir::{CopyOptions, copy_with_progress, get_size, move_dir};
use fs_extra::file;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use ignore::{WalkBuilder, WalkState};
use walkdir::{DirEntry, WalkDir};

use crate::folder::Folder;

/// Copies and moves folders, with progress.
pub fn fs_extra() -> crate_uses::Result {
    let folder = Folder::with_tree("fs_extra")?;
    let (from, to) = (folder.path().join("sub"), folder.path().join("copy"));
    // The total has the sizes of folders, too, which file systems define.
    let mut total = 0;
    let copied = copy_with_progress(&from, &to, &CopyOptions::new().copy_inside(true), |process| {
        total = process.total_bytes;
        fs_extra::dir::TransitProcessResult::ContinueOrAbort
    })?;
    println!("{copied} {} {} {}", total > copied, get_size(&from)?, get_size(&to)?);
    let mut found: Vec<_> = fs_extra::dir::get_dir_content(&to)?
        .files
        .iter()
        .map(|file| folder.relative(file.as_ref()))
        .collect();
    found.sort();
    println!("{found:?}");
    println!("{}", move_dir(folder.path().join("build"), &to, &CopyOptions::new())?);
    println!("{} {}", to.join("build/out.o").is_file(), folder.path().join("build").exists());
    file::write_all(folder.path().join("new"), "text")?;
    let again = file::copy(folder.path().join("new"), folder.path().join("a.txt"), &file::CopyOptions::new());
    println!(
        "{:?} {:?}",
        file::read_to_string(folder.path().join("new"))?,
        again.map_err(|error| format!("{:?}", error.kind))
    );
    Ok(())
}

/// Walks a tree as `.gitignore` says, also on several threads.
pub fn ignore() -> crate_uses::Result {
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

/// Walks a tree.
pub fn walkdir() -> crate_uses::Result {
    let folder = Folder::with_tree("walkdir")?;
    for entry in WalkDir::new(folder.path()).sort_by_file_name() {
        let entry = entry?;
        println!("{} {:?} {}", entry.depth(), folder.relative(entry.path()), entry.file_type().is_dir());
    }
    let is_visible = |entry: &DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let visible = WalkDir::new(folder.path()).min_depth(2).into_iter().filter_entry(is_visible);
    println!("{}", visible.count());
    let last = WalkDir::new(folder.path().join("sub"))
        .contents_first(true)
        .into_iter()
        .last()
        .ok_or("nothing")??;
    println!("{:?} {}", folder.relative(last.path()), last.metadata()?.is_dir());
    fs::remove_file(folder.path().join("b.rs"))?;
    let size = WalkDir::new(folder.path()).into_iter().filter_map(|entry| entry.ok()?.metadata().ok());
    println!("{}", size.filter(fs::Metadata::is_file).map(|metadata| metadata.len()).sum::<u64>());
    let same =
        WalkDir::new(folder.path().join("sub")).same_file_system(true).follow_links(true).sort_by_file_name();
    let same = same.into_iter().map(|entry| Ok(folder.relative(entry?.path())));
    println!("{:?}", same.collect::<Result<Vec<_>, walkdir::Error>>()?);
    println!("{:?}", WalkDir::new("/none").into_iter().next().map(|entry| entry.is_err()));
    Ok(())
}
