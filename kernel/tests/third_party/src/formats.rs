//! csv, zip and config: files of several formats.

use std::fs::{self, File};
use std::io::{Read, Write};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::{TestResult, digest, ensure, numbers};

/// Number of rows, and of bytes of a file in an archive.
const SIZE: usize = 3_000;

/// Writes and reads a table.
pub(crate) fn csv() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("table.csv");
    let mut writer = csv::Writer::from_path(&path)?;
    writer.write_record(["number", "text"])?;
    for number in numbers(29).take(SIZE) {
        writer.write_record([number.to_string(), format!("a \"quoted\", {number:x}\nline")])?;
    }
    writer.flush()?;
    let mut sum = 0;
    let mut texts = Vec::new();
    for record in csv::Reader::from_path(&path)?.records() {
        let record = record?;
        sum += record.get(0).ok_or("a field is missing")?.parse::<u64>()?;
        texts.push(record.get(1).ok_or("a field is missing")?.to_owned());
    }
    ensure(texts.len() == SIZE, || format!("{} rows were read", texts.len()))?;
    Ok(digest(&(sum, texts, fs::metadata(&path)?.len())))
}

/// Writes a compressed archive, and extracts it.
pub(crate) fn zip() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("archive.zip");
    let contents: Vec<u8> = numbers(31).take(SIZE).flat_map(u32::to_be_bytes).collect();
    let mut writer = ZipWriter::new(File::create(&path)?);
    for name in ["first", "folder/second"] {
        writer.start_file(name, SimpleFileOptions::default())?;
        writer.write_all(&contents)?;
    }
    writer.finish()?;
    let mut archive = ZipArchive::new(File::open(&path)?)?;
    let mut text = String::new();
    archive.by_name("first")?.take(0).read_to_string(&mut text)?;
    archive.extract(folder.path().join("extracted"))?;
    let extracted = fs::read(folder.path().join("extracted/folder/second"))?;
    ensure(extracted == contents, || "other bytes were extracted".to_owned())?;
    Ok(digest(&(archive.len(), extracted)))
}

/// Reads a configuration from two files. The second one takes precedence.
pub(crate) fn config() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (first, second) = (folder.path().join("default.toml"), folder.path().join("local.toml"));
    fs::write(&first, "name = 'server'\nport = 80\n[limits]\nsize = 4096\n")?;
    fs::write(&second, "port = 8080\n[limits]\ntime = 2.5\n")?;
    let sources = config::Config::builder()
        .add_source(config::File::from(first))
        .add_source(config::File::from(second))
        .add_source(config::File::from(folder.path().join("none.toml")).required(false));
    let settings = sources.build()?;
    let time = settings.get_float("limits.time")?.to_bits();
    let numbers = [settings.get_int("port")?, settings.get_int("limits.size")?];
    Ok(digest(&(settings.get_string("name")?, numbers, time)))
}
