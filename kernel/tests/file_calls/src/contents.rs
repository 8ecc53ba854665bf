//! Reading, writing, seeking, and sizes.
//!
//! Each row is a name and a function. The function works in an empty folder and returns the text that is
//! compared with Linux's (see the documentation of the crate).

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, SeekFrom, Write as _};

use crate::{Row, show};

/// A file that can be read and written, with contents.
fn file(contents: &str) -> io::Result<File> {
    fs::write("file", contents)?;
    OpenOptions::new().read(true).write(true).open("file")
}

/// Seeks and tells the position.
fn seek(contents: &str, positions: &[SeekFrom]) -> io::Result<String> {
    let mut file = file(contents)?;
    let results: Vec<String> = positions.iter().map(|position| show::result(file.seek(*position))).collect();
    Ok(results.join(" "))
}

pub(crate) const ROWS: &[Row] = &[
    ("read.all", || fs::write("file", "abc").and_then(|()| fs::read_to_string("file"))),
    ("read.empty", || Ok(show::result(fs::write("file", "").and_then(|()| fs::read("file"))))),
    ("read.parts", || {
        let mut file = file("abcdef")?;
        let mut bytes = [0; 4];
        Ok(format!(
            "{} {} {} {bytes:?}",
            file.read(&mut bytes)?,
            file.read(&mut bytes)?,
            file.read(&mut bytes)?
        ))
    }),
    ("read.nothing", || Ok(show::result(file("abc")?.read(&mut [])))),
    ("read.vectored", || {
        let (mut first, mut second) = ([0; 2], [0; 3]);
        let count = file("abcdef")?
            .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
        Ok(format!("{count} {first:?} {second:?}"))
    }),
    ("read.invalid.utf8", || {
        fs::write("file", [0xff, 0xfe])?;
        Ok(show::result(fs::read_to_string("file")))
    }),
    ("write.vectored", || {
        let count = File::create("file")?.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cde")])?;
        Ok(format!("{count} {}", fs::read_to_string("file")?))
    }),
    ("write.nothing", || Ok(show::result(File::create("file")?.write(b"")))),
    ("write.overwrites", || {
        file("abcdef")?.write_all(b"xy")?;
        fs::read_to_string("file")
    }),
    ("write.behind.the.end", || {
        let mut file = file("ab")?;
        file.seek(SeekFrom::Start(5))?;
        file.write_all(b"x")?;
        Ok(format!("{:?}", fs::read("file")?))
    }),
    ("write.sparse", || {
        let mut file = file("")?;
        file.seek(SeekFrom::Start(1 << 30))?;
        file.write_all(b"x")?;
        file.seek(SeekFrom::Start(12345))?;
        let mut bytes = [1; 3];
        file.read_exact(&mut bytes)?;
        Ok(format!("{} {bytes:?}", file.metadata()?.len()))
    }),
    ("write.big", || {
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        fs::write("file", &bytes)?;
        Ok(format!("{}", fs::read("file")? == bytes))
    }),
    ("append.ignores.position", || {
        fs::write("file", "abc")?;
        let mut file = OpenOptions::new().read(true).append(true).open("file")?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(b"x")?;
        Ok(format!("{} {}", file.stream_position()?, fs::read_to_string("file")?))
    }),
    ("append.two.files", || {
        let open = || OpenOptions::new().create(true).append(true).open("file");
        let (mut first, mut second) = (open()?, open()?);
        first.write_all(b"1")?;
        second.write_all(b"2")?;
        first.write_all(b"3")?;
        fs::read_to_string("file")
    }),
    ("seek.start", || seek("abc", &[SeekFrom::Start(0), SeekFrom::Start(2), SeekFrom::Start(1 << 40)])),
    ("seek.start.too.far", || seek("abc", &[SeekFrom::Start(u64::MAX), SeekFrom::Start(i64::MAX as u64)])),
    ("seek.current", || seek("abc", &[SeekFrom::Current(2), SeekFrom::Current(-1), SeekFrom::Current(-2)])),
    ("seek.end", || seek("abc", &[SeekFrom::End(0), SeekFrom::End(-3), SeekFrom::End(-4), SeekFrom::End(7)])),
    ("seek.directory.end", || Ok(show::result(File::open(".")?.seek(SeekFrom::End(0))))),
    ("seek.directory.start", || Ok(show::result(File::open(".")?.seek(SeekFrom::Start(0))))),
    ("seek.directory.current", || Ok(show::result(File::open(".")?.stream_position()))),
    ("seek.rewind", || {
        let mut file = file("abc")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        file.rewind()?;
        file.read_to_string(&mut text)?;
        Ok(text)
    }),
    ("position.shared.by.clones", || {
        let mut file = file("abcdef")?;
        let mut clone = file.try_clone()?;
        file.read_exact(&mut [0; 2])?;
        let mut bytes = [0; 2];
        clone.read_exact(&mut bytes)?;
        Ok(format!("{bytes:?} {}", file.stream_position()?))
    }),
    ("position.of.two.files", || {
        let mut first = file("abcdef")?;
        let mut second = File::open("file")?;
        first.read_exact(&mut [0; 2])?;
        Ok(format!("{} {}", first.stream_position()?, second.stream_position()?))
    }),
    ("set_len.shorter", || {
        file("abcdef")?.set_len(2)?;
        fs::read_to_string("file")
    }),
    ("set_len.longer", || {
        file("ab")?.set_len(4)?;
        Ok(format!("{:?}", fs::read("file")?))
    }),
    ("set_len.shorter.then.longer", || {
        let file = file(&"x".repeat(5000))?;
        file.set_len(4097)?;
        file.set_len(4099)?;
        Ok(format!("{:?}", &fs::read("file")?[4095..]))
    }),
    ("set_len.read.only", || {
        fs::write("file", "abc")?;
        Ok(show::result(File::open("file")?.set_len(1)))
    }),
    ("set_len.too.long", || Ok(show::result(file("")?.set_len(u64::MAX)))),
    ("set_len.keeps.the.position", || {
        let mut file = file("abcdef")?;
        file.seek(SeekFrom::Start(5))?;
        file.set_len(2)?;
        Ok(format!("{} {}", file.stream_position()?, file.read(&mut [0; 3])?))
    }),
    ("sync", || {
        let file = file("abc")?;
        Ok(format!("{} {}", show::result(file.sync_all()), show::result(file.sync_data())))
    }),
    ("sync.directory", || Ok(show::result(File::open(".")?.sync_all()))),
    ("copy", || {
        fs::write("file", "abc")?;
        Ok(format!("{} {}", show::result(fs::copy("file", "copy")), fs::read_to_string("copy")?))
    }),
    ("copy.replaces", || {
        fs::write("file", "abc")?;
        fs::write("copy", "longer than before")?;
        fs::copy("file", "copy")?;
        fs::read_to_string("copy")
    }),
    ("copy.permissions", || {
        fs::write("file", "abc")?;
        let mut permissions = fs::metadata("file")?.permissions();
        permissions.set_readonly(true);
        fs::set_permissions("file", permissions)?;
        fs::copy("file", "copy")?;
        Ok(show::metadata(&fs::metadata("copy")?))
    }),
    ("copy.absent", || Ok(show::result(fs::copy("absent", "copy")) + " " + &show::tree(".")?)),
    ("copy.directory", || {
        fs::create_dir("directory")?;
        Ok(show::result(fs::copy("directory", "copy")))
    }),
    ("io.copy", || {
        fs::write("file", "x".repeat(20_000))?;
        Ok(show::result(io::copy(&mut File::open("file")?, &mut File::create("copy")?)))
    }),
    ("copy.onto.itself", || {
        fs::write("file", "abc")?;
        Ok(show::result(fs::copy("file", "file")) + &format!(" {:?}", fs::read_to_string("file")?))
    }),
    ("copy.sparse", || {
        File::create("file")?.set_len(3_000_000)?;
        Ok(show::result(fs::copy("file", "copy")) + &format!(" {}", fs::metadata("copy")?.len()))
    }),
    ("copy.device", || Ok(show::result(fs::copy("/dev/null", "copy")))),
    ("clone.of.a.directory", || {
        let directory = File::open(".")?;
        Ok(show::metadata(&directory.try_clone()?.metadata()?))
    }),
    ("read.to.end.of.a.growing.file", || {
        let (mut writer, mut reader) = (File::create("file")?, File::open("file")?);
        let mut text = String::new();
        for _ in 0..3 {
            writer.write_all(b"abc")?;
            reader.read_to_string(&mut text)?;
        }
        Ok(text)
    }),
    ("removed.file.is.open", || {
        let mut file = file("abc")?;
        fs::remove_file("file")?;
        file.write_all(b"xy")?;
        file.rewind()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(format!("{text} {}", show::success(File::open("file"))))
    }),
];
