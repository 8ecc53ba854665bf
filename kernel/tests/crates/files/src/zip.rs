//! Writes and reads archives.

use std::io::{Cursor, Read, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::folder::text;

pub fn run() -> crate_uses::Result {
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
