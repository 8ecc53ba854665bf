//! Paths of UTF-8.

use camino::{Utf8Path, Utf8PathBuf};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let path = Utf8Path::new("/usr/lib/../größe.tar.gz");
    println!("{:?} {:?} {:?}", path.file_stem(), path.extension(), path.parent());
    println!("{:?}", path.components().map(|component| component.as_str()).collect::<Vec<_>>());
    let mut joined: Utf8PathBuf = ["a", "b"].iter().collect();
    joined.push("c.txt");
    joined.set_extension("rs");
    println!("{joined} {:?}", joined.strip_prefix("a"));
    let folder = Folder::with_tree("camino")?;
    let folder_path = Utf8PathBuf::try_from(folder.path().to_path_buf())?;
    let names = folder_path.read_dir_utf8()?.map(|entry| Ok(entry?.file_name().to_owned()));
    let mut names = names.collect::<Result<Vec<_>, std::io::Error>>()?;
    names.sort();
    println!(
        "{names:?} {}",
        folder_path.join("sub/deep/../c.rs").canonicalize_utf8()?.strip_prefix(&folder_path)?
    );
    Ok(())
}
