//! Walks a tree.

use std::fs;

use walkdir::{DirEntry, WalkDir};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
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
