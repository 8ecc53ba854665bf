//! Tells whether two paths are the same file.

use std::fs;

use same_file::{Handle, is_same_file};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let folder = Folder::with_tree("same-file")?;
    let path = |name: &str| folder.path().join(name);
    fs::hard_link(path("a.txt"), path("link"))?;
    fs::copy(path("a.txt"), path("copy"))?;
    println!("{} {}", is_same_file(path("a.txt"), path("link"))?, is_same_file(path("a.txt"), path("copy"))?);
    println!("{}", is_same_file(path("sub/deep/../c.rs"), path("sub/c.rs"))?);
    println!("{:?}", is_same_file(path("a.txt"), path("none")).map_err(|error| error.kind()));
    let handle = Handle::from_path(path("link"))?;
    fs::rename(path("link"), path("renamed"))?;
    println!("{}", handle == Handle::from_path(path("renamed"))?);
    println!("{}", handle == Handle::from_file(fs::File::open(path("copy"))?)?);
    Ok(())
}
