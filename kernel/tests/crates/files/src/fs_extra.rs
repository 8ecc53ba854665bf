//! Copies and moves folders, with progress.

use fs_extra::dir::{CopyOptions, copy_with_progress, get_size, move_dir};
use fs_extra::file;

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
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
