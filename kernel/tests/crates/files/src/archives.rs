//! Archives of files.

use std::fs;
use std::io::{Cursor, Read, Write};

use tar::{Archive, Builder, EntryType, Header, HeaderMode};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::folder::{Folder, text};

/// Writes and unpacks archives.
pub fn tar() -> crate_uses::Result {
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

/// Writes and reads archives.
pub fn zip() -> crate_uses::Result {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let time = DateTime::from_date_and_time(2024, 2, 29, 12, 30, 58)?;
    let stored =
        SimpleFileOptions::default().compression_method(CompressionMethod::Stored).last_modified_time(time);
    writer.start_file("stored.txt", stored)?;
    writer.write_all(b"stored content")?;
    writer.add_directory("folder", stored)?;
    writer.start_file(
        "folder/größe.bin",
        stored.compression_method(CompressionMethod::Deflated).unix_permissions(0o755),
    )?;
    writer.write_all(&text())?;
    writer.set_comment("a comment");
    let bytes = writer.finish()?.into_inner();
    println!("{} {}", bytes.len(), crate_uses::digest(&bytes));
    let mut archive = ZipArchive::new(Cursor::new(&bytes))?;
    println!("{:?}", String::from_utf8_lossy(archive.comment()));
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        println!("{} {:?} {:?} {}", file.name(), file.unix_mode(), file.compression(), content.len());
        crate_uses::ensure(file.size() == content.len() as u64, "another size")?;
    }
    println!(
        "{:?} {:?}",
        archive.by_name("none").map(|_| ()).map_err(|error| error.to_string()),
        ZipArchive::new(Cursor::new(&bytes[..100])).is_err()
    );
    Ok(())
}
