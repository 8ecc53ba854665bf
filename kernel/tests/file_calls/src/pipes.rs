//! Pipes, terminals, and buffered reading and writing.

use std::fs::{self, File};
use std::io::{self, BufRead as _, IoSlice, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::thread;

use crate::system::{FileExt as _, FileTypeExt as _};
use crate::{Row, show};

/// A pipe of two ends as files.
fn files() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer))))
}

pub(crate) const ROWS: &[Row] = &[
    ("pipe", || {
        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(b"abcdef")?;
        let mut bytes = [0; 4];
        let first = reader.read(&mut bytes)?;
        Ok(format!("{first} {} {bytes:?}", reader.read(&mut bytes)?))
    }),
    ("pipe.end", || {
        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(b"abc")?;
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        Ok(format!("{text} {}", reader.read(&mut [0; 3])?))
    }),
    ("pipe.end.of.the.last.clone", || {
        let (reader, writer) = io::pipe()?;
        let mut clone = writer.try_clone()?;
        drop(writer);
        clone.write_all(b"abc")?;
        drop(clone);
        io::read_to_string(reader)
    }),
    ("pipe.broken", || {
        let (reader, mut writer) = io::pipe()?;
        drop(reader);
        Ok(format!("{} {}", show::result(writer.write(b"abc")), show::result(writer.write(b""))))
    }),
    ("pipe.clone.of.reader", || {
        let (mut reader, mut writer) = io::pipe()?;
        let mut clone = reader.try_clone()?;
        writer.write_all(b"ab")?;
        let (mut first, mut second) = ([0; 1], [0; 1]);
        reader.read_exact(&mut first)?;
        drop(reader);
        clone.read_exact(&mut second)?;
        Ok(format!("{first:?} {second:?}"))
    }),
    ("pipe.vectored", || {
        let (reader, mut writer) = io::pipe()?;
        let count = writer.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")])?;
        drop(writer);
        Ok(format!("{count} {}", io::read_to_string(reader)?))
    }),
    ("pipe.read.nothing", || {
        let (mut reader, _writer) = io::pipe()?;
        Ok(show::result(reader.read(&mut [])))
    }),
    ("pipe.more.than.it.holds", || {
        let (mut reader, mut writer) = io::pipe()?;
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let sent = bytes.clone();
        // A blocking write returns when all is written.
        let writing = thread::spawn(move || writer.write(&sent));
        let mut received = Vec::new();
        reader.read_to_end(&mut received)?;
        let count = writing.join().map_err(|_| io::Error::other("panic"))??;
        Ok(format!("{count} {}", received == bytes))
    }),
    ("pipe.records.are.whole", || {
        let (mut reader, writer) = io::pipe()?;
        let threads: Vec<_> = (b'a'..b'e')
            .map(|letter| {
                let mut writer = writer.try_clone()?;
                Ok(thread::spawn(move || (0..50).try_for_each(|_| writer.write(&[letter; 4096]).map(drop))))
            })
            .collect::<io::Result<_>>()?;
        drop(writer);
        let mut received = Vec::new();
        reader.read_to_end(&mut received)?;
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("panic"))??;
        }
        let whole =
            received.chunks(4096).filter(|record| record.iter().all(|byte| *byte == record[0])).count();
        Ok(format!("{} {whole}", received.len()))
    }),
    ("pipe.broken.while.writing", || {
        let (reader, mut writer) = io::pipe()?;
        let writing = thread::spawn(move || writer.write_all(&[0; 200_000]));
        drop(reader);
        Ok(show::result(writing.join().map_err(|_| io::Error::other("panic"))?))
    }),
    ("pipe.to.file", || {
        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(b"abc")?;
        drop(writer);
        let count = io::copy(&mut reader, &mut File::create("x")?)?;
        Ok(format!("{count} {}", fs::read_to_string("x")?))
    }),
    ("pipe.as.files", || {
        let (mut reader, mut writer) = files()?;
        writer.write_all(b"abc")?;
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        Ok(text)
    }),
    ("pipe.wrong.ends", || {
        let (mut reader, mut writer) = files()?;
        Ok(format!("{} {}", show::result(reader.write(b"abc")), show::result(writer.read(&mut [0; 3]))))
    }),
    ("pipe.metadata", || {
        let found = files()?.0.metadata()?;
        Ok(format!("{} {} {}", found.file_type().is_fifo(), found.is_file(), found.len()))
    }),
    ("pipe.seek", || Ok(show::result(files()?.0.stream_position()))),
    ("pipe.read_at", || Ok(show::result(files()?.0.read_at(&mut [0; 3], 0)))),
    ("pipe.write_at", || Ok(show::result(files()?.1.write_at(b"abc", 0)))),
    ("pipe.set_len", || Ok(show::result(files()?.1.set_len(1)))),
    ("pipe.sync", || Ok(show::result(files()?.1.sync_all()))),
    ("terminal", || {
        let (reader, writer) = files()?;
        Ok(format!("{} {} {}", File::create("x")?.is_terminal(), reader.is_terminal(), writer.is_terminal()))
    }),
    ("buffered.lines", || {
        fs::write("x", "one\ntwo\n\nfour")?;
        let lines = io::BufReader::new(File::open("x")?).lines().collect::<io::Result<Vec<_>>>()?;
        Ok(format!("{lines:?}"))
    }),
    ("buffered.seek", || {
        fs::write("x", "0123456789".repeat(2000))?;
        let mut reader = io::BufReader::with_capacity(16, File::open("x")?);
        let mut bytes = [0; 3];
        reader.read_exact(&mut bytes)?;
        reader.seek_relative(10)?;
        reader.read_exact(&mut bytes)?;
        reader.seek(SeekFrom::End(-1))?;
        Ok(format!("{bytes:?} {} {}", reader.stream_position()?, io::read_to_string(reader)?))
    }),
    ("buffered.writes", || {
        let mut writer = io::BufWriter::with_capacity(100, File::create("x")?);
        for number in 0..1000 {
            writeln!(writer, "{number}")?;
        }
        let before = fs::metadata("x")?.len() < 3890;
        writer.flush()?;
        Ok(format!("{before} {}", fs::metadata("x")?.len()))
    }),
    ("buffered.lines.are.written", || {
        let mut writer = io::LineWriter::new(File::create("x")?);
        writer.write_all(b"one\ntwo")?;
        let first = fs::read_to_string("x")?;
        drop(writer);
        Ok(format!("{first:?} {:?}", fs::read_to_string("x")?))
    }),
    ("take.and.chain", || {
        fs::write("x", "abcdef")?;
        fs::write("y", "ghi")?;
        io::read_to_string(File::open("x")?.take(4).chain(File::open("y")?))
    }),
];
