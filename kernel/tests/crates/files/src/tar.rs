//! Writes and unpacks archives.

use std::fs;
use std::io::Read;

use tar::{Archive, Builder, EntryType, Header, HeaderMode};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let folder = Folder::with_tree("tar")?;
    let mut builder = Builder::new(Vec::new());
    builder.mode(HeaderMode::Deterministic);
    for file in ["a.txt", "sub/c.rs"] {
        builder.append_path_with_name(folder.path().join(file), format!("root/{file}"))?;
    }
    let mut header = Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o640);
    header.set_mtime(1_000_000_000);
    builder.append_data(&mut header, format!("{}/long.txt", "folder".repeat(30)), &b"text"[..])?;
    let mut link = Header::new_gnu();
    link.set_entry_type(EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "root/link", "a.txt")?;
    let bytes = builder.into_inner()?;
    println!("{}", bytes.len());
    for entry in Archive::new(bytes.as_slice()).entries()? {
        let mut entry = entry?;
        let mut content = String::new();
        entry.read_to_string(&mut content)?;
        println!("{} {:?} {}", entry.path()?.display(), entry.header().entry_type(), content.len());
    }
    let target = folder.path().join("unpacked");
    Archive::new(bytes.as_slice()).unpack(&target)?;
    println!(
        "{:?} {}",
        fs::read_link(target.join("root/link"))?,
        fs::read_to_string(target.join("root/link"))?.len()
    );
    let modified = fs::metadata(target.join(format!("{}/long.txt", "folder".repeat(30))))?.modified()?;
    println!("{:?}", modified.duration_since(std::time::UNIX_EPOCH)?);
    println!(
        "{:?}",
        Archive::new(&bytes[..700]).unpack(folder.path().join("cut")).map_err(|error| error.kind())
    );
    Ok(())
}
