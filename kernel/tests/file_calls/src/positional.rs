//! Reading and writing at offsets, modes, and other properties that only some platforms have.
//!
//! The traits of `std::os` have different modules on Linux and on this kernel, but are otherwise the same
//! (see [`crate::system`]). So each row is written only once.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write as _};

use crate::system::{
    DirBuilderExt as _, DirEntryExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _,
    OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use crate::{Row, show};

/// Fail if the last name is a symbolic link, and if the file is no directory (`open(2)`).
const O_NOFOLLOW: i32 = 0o400_000;
const O_DIRECTORY: i32 = 0o200_000;
const O_APPEND: i32 = 0o2_000;

/// A file that can be read and written, with contents, and its position at 1.
fn file(contents: &str) -> io::Result<File> {
    fs::write("file", contents)?;
    let mut file = OpenOptions::new().read(true).write(true).open("file")?;
    file.seek(SeekFrom::Start(1))?;
    Ok(file)
}

fn read_at(file: &File, size: usize, offset: u64) -> String {
    let mut bytes = vec![0; size];
    show::result(
        file.read_at(&mut bytes, offset).map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned()),
    )
}

/// The mode of a path, in octal.
fn mode(path: &str) -> io::Result<String> {
    Ok(format!("{:o}", fs::symlink_metadata(path)?.mode()))
}

/// Describes if an action on a file changes the file's `ctime`, the time of the last change of its
/// properties.
fn changes_ctime(change: fn() -> io::Result<()>) -> io::Result<String> {
    fs::write("file", "abc")?;
    let ctime = || fs::symlink_metadata("file").map(|found| (found.ctime(), found.ctime_nsec()));
    let before = ctime()?;
    // A clock of a kernel may advance in steps of some milliseconds.
    while fs::write("other", "")
        .and_then(|()| fs::metadata("other"))
        .map(|found| (found.ctime(), found.ctime_nsec()))?
        == before
    {}
    change()?;
    let after = if fs::exists("file")? { ctime()? } else { (0, 0) };
    Ok(format!("{}", after != before))
}

pub(crate) const ROWS: &[Row] = &[
    ("read_at", || file("abcdef").map(|file| read_at(&file, 3, 2))),
    ("read_at.start", || file("abcdef").map(|file| read_at(&file, 10, 0))),
    ("read_at.end", || file("abc").map(|file| read_at(&file, 3, 3))),
    ("read_at.behind.the.end", || file("abc").map(|file| read_at(&file, 3, 1 << 40))),
    ("read_at.nothing", || file("abc").map(|file| read_at(&file, 0, 1))),
    ("read_at.negative", || file("abc").map(|file| read_at(&file, 3, u64::MAX))),
    ("read_at.hole", || {
        let file = file("")?;
        file.set_len(10_000)?;
        Ok(format!("{:?}", read_at(&file, 3, 5_000)))
    }),
    ("read_at.keeps.the.position", || {
        let mut file = file("abcdef")?;
        Ok(read_at(&file, 3, 2) + &format!(" {}", file.stream_position()?))
    }),
    ("read_at.write.only", || Ok(read_at(&File::create("file")?, 3, 0))),
    ("read_at.directory", || File::open(".").map(|directory| read_at(&directory, 3, 0))),
    ("read_exact_at", || {
        let (file, mut bytes) = (file("abcdef")?, [0; 3]);
        let found = show::result(file.read_exact_at(&mut bytes, 3));
        Ok(format!("{found} {bytes:?} {}", show::result(file.read_exact_at(&mut bytes, 4))))
    }),
    ("write_at", || {
        let file = file("abcdef")?;
        Ok(show::result(file.write_at(b"xy", 2)) + " " + &fs::read_to_string("file")?)
    }),
    ("write_at.behind.the.end", || {
        let file = file("a")?;
        Ok(show::result(file.write_at(b"xy", 3)) + &format!(" {:?}", fs::read("file")?))
    }),
    ("write_at.nothing", || {
        let file = file("abc")?;
        Ok(show::result(file.write_at(b"", 100)) + " " + &fs::read_to_string("file")?)
    }),
    ("write_at.negative", || Ok(show::result(file("abc")?.write_at(b"x", u64::MAX)))),
    ("write_at.keeps.the.position", || {
        let mut file = file("abc")?;
        file.write_at(b"xyz", 7)?;
        Ok(format!("{}", file.stream_position()?))
    }),
    ("write_at.append", || {
        fs::write("file", "abc")?;
        let file = OpenOptions::new().append(true).open("file")?;
        Ok(show::result(file.write_at(b"x", 0)) + " " + &fs::read_to_string("file")?)
    }),
    ("write_at.read.only", || {
        fs::write("file", "abc")?;
        Ok(show::result(File::open("file")?.write_at(b"x", 0)))
    }),
    ("write_all_at", || {
        let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        let file = file("")?;
        file.write_all_at(&bytes, 5)?;
        let mut read = vec![0; bytes.len()];
        file.read_exact_at(&mut read, 5)?;
        Ok(format!("{} {}", read == bytes, file.metadata()?.len()))
    }),
    ("device.null.at", || {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        Ok(read_at(&null, 3, 7) + " " + &show::result(null.write_at(b"abc", 9)))
    }),
    ("device.zero.at", || Ok(format!("{:?}", read_at(&File::open("/dev/zero")?, 3, 7)))),
    ("device.full.at", || {
        Ok(show::result(OpenOptions::new().write(true).open("/dev/full")?.write_at(b"abc", 9)))
    }),
    ("device.random.at", || Ok(show::result(File::open("/dev/urandom")?.read_at(&mut [0; 100], 7)))),
    ("device.null.seek", || {
        let mut null = File::open("/dev/null")?;
        Ok(format!(
            "{} {}",
            show::result(null.seek(SeekFrom::Start(5))),
            show::result(null.seek(SeekFrom::End(5)))
        ))
    }),
    ("device.null.set_len", || Ok(show::result(File::create("/dev/null")?.set_len(3)))),
    ("device.null.sync", || Ok(show::result(File::create("/dev/null")?.sync_all()))),
    ("device.null.append", || {
        Ok(show::result(OpenOptions::new().append(true).open("/dev/null")?.write(b"abc")))
    }),
    ("device.types", || {
        let kind = fs::metadata("/dev/null")?.file_type();
        Ok(format!(
            "{} {} {} {}",
            kind.is_char_device(),
            kind.is_block_device(),
            kind.is_fifo(),
            kind.is_socket()
        ))
    }),
    ("device.entry.type", || {
        let entry = fs::read_dir("/dev")?.flatten().find(|entry| entry.file_name() == "null");
        Ok(show::result(entry.ok_or(io::ErrorKind::NotFound)?.file_type().map(|kind| kind.is_char_device())))
    }),
    ("mode.new.file", || File::create("x").and_then(|_| mode("x"))),
    ("mode.new.directory", || fs::create_dir("x").and_then(|()| mode("x"))),
    ("mode.new.link", || symlink("x", "y").and_then(|()| mode("y"))),
    ("mode.of.open", || {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open("x")?;
        mode("x")
    }),
    ("mode.of.open.is.masked", || {
        OpenOptions::new().write(true).create_new(true).mode(0o777).open("x")?;
        mode("x")
    }),
    ("mode.of.open.existing", || {
        fs::write("x", "")?;
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open("x")?;
        mode("x")
    }),
    ("mode.of.builder", || DirBuilder::new().mode(0o700).create("x").and_then(|()| mode("x"))),
    ("mode.of.recursive.builder", || {
        DirBuilder::new().recursive(true).mode(0o750).create("x/y")?;
        Ok(mode("x")? + " " + &mode("x/y")?)
    }),
    ("mode.set", || {
        fs::write("x", "")?;
        fs::set_permissions("x", Permissions::from_mode(0o751))?;
        mode("x")
    }),
    ("mode.set.all.bits", || {
        fs::write("x", "")?;
        fs::set_permissions("x", Permissions::from_mode(0o7777))?;
        mode("x")
    }),
    ("mode.set.no.bits", || {
        fs::write("x", "abc")?;
        fs::set_permissions("x", Permissions::from_mode(0o0))?;
        // A privileged user reads it nevertheless.
        Ok(mode("x")? + " " + &fs::read_to_string("x")?)
    }),
    ("mode.set.open.file", || {
        let file = File::create("x")?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(format!("{} {:o}", mode("x")?, file.metadata()?.permissions().mode()))
    }),
    ("mode.set.through.link", || {
        fs::write("x", "")?;
        symlink("x", "y")?;
        fs::set_permissions("y", Permissions::from_mode(0o600))?;
        Ok(mode("x")? + " " + &mode("y")?)
    }),
    ("mode.sticky.directory", || {
        fs::create_dir("x")?;
        fs::set_permissions("x", Permissions::from_mode(0o1777))?;
        mode("x")
    }),
    ("mode.copy", || {
        fs::write("x", "")?;
        fs::set_permissions("x", Permissions::from_mode(0o710))?;
        fs::copy("x", "y")?;
        mode("y")
    }),
    ("flags.nofollow", || {
        fs::write("x", "")?;
        symlink("x", "y")?;
        let open = |path| show::success(OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(path));
        Ok(format!("{} {}", open("x"), open("y")))
    }),
    ("flags.directory", || {
        fs::write("x", "")?;
        fs::create_dir("d")?;
        let open = |path| show::success(OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(path));
        Ok(format!("{} {} {}", open("x"), open("d"), open("absent")))
    }),
    ("flags.append", || {
        fs::write("x", "abc")?;
        OpenOptions::new().write(true).custom_flags(O_APPEND).open("x")?.write_all(b"d")?;
        fs::read_to_string("x")
    }),
    ("nlink.file", || {
        fs::write("x", "")?;
        fs::hard_link("x", "y")?;
        let two = fs::metadata("x")?.nlink();
        fs::remove_file("y")?;
        Ok(format!("{two} {}", fs::metadata("x")?.nlink()))
    }),
    ("nlink.removed.file", || {
        let file = File::create("x")?;
        fs::remove_file("x")?;
        Ok(format!("{}", file.metadata()?.nlink()))
    }),
    ("nlink.directory", || {
        fs::create_dir_all("x/y")?;
        fs::create_dir_all("x/z")?;
        fs::write("x/f", "")?;
        let four = fs::metadata("x")?.nlink();
        fs::rename("x/z", "z")?;
        Ok(format!("{four} {} {}", fs::metadata("x")?.nlink(), fs::metadata("z")?.nlink()))
    }),
    ("ino.of.names", || {
        fs::write("x", "")?;
        fs::hard_link("x", "y")?;
        fs::write("z", "")?;
        let ino = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        Ok(format!("{} {}", ino("x")? == ino("y")?, ino("x")? == ino("z")?))
    }),
    ("ino.of.open.file", || {
        let file = File::create("x")?;
        Ok(format!("{}", file.metadata()?.ino() == fs::metadata("x")?.ino()))
    }),
    ("ino.of.renamed.file", || {
        fs::write("x", "")?;
        let before = fs::metadata("x")?.ino();
        fs::rename("x", "y")?;
        Ok(format!("{}", fs::metadata("y")?.ino() == before))
    }),
    ("ino.of.entry", || {
        fs::write("x", "")?;
        let entry = fs::read_dir(".")?.next().transpose()?.ok_or(io::ErrorKind::NotFound)?;
        Ok(format!("{}", entry.ino() == fs::metadata("x")?.ino()))
    }),
    ("dev.of.devices", || Ok(format!("{}", fs::metadata("/dev/null")?.dev() == fs::metadata(".")?.dev()))),
    ("blocks.sparse", || {
        let file = File::create("x")?;
        file.write_at(b"x", 1 << 20)?;
        let found = file.metadata()?;
        Ok(format!("{} {} {}", found.size(), found.blocks(), found.blksize()))
    }),
    ("blocks.of.a.shorter.file", || {
        fs::write("x", vec![1; 100_000])?;
        File::options().write(true).open("x")?.set_len(5_000)?;
        Ok(format!("{}", fs::metadata("x")?.blocks()))
    }),
    ("owner", || fs::metadata(".").map(|found| format!("{} {}", found.uid(), found.gid()))),
    ("created.is.known", || {
        fs::write("x", "")?;
        let found = fs::metadata("x")?;
        Ok(format!("{}", found.created()? <= found.modified()?))
    }),
    ("created.stays", || {
        let file = file("abc")?;
        let before = file.metadata()?.created()?;
        file.set_len(1)?;
        fs::set_permissions("file", Permissions::from_mode(0o600))?;
        fs::rename("file", "other")?;
        Ok(format!("{}", fs::metadata("other")?.created()? == before))
    }),
    ("created.of.a.directory", || {
        fs::create_dir("x")?;
        let before = fs::metadata("x")?.created()?;
        fs::write("x/y", "")?;
        Ok(format!("{}", fs::metadata("x")?.created()? == before))
    }),
    ("ctime.write", || changes_ctime(|| fs::write("file", "x"))),
    ("ctime.read", || changes_ctime(|| fs::read("file").map(drop))),
    ("ctime.chmod", || changes_ctime(|| fs::set_permissions("file", Permissions::from_mode(0o600)))),
    ("ctime.link", || changes_ctime(|| fs::hard_link("file", "link"))),
    ("ctime.rename", || changes_ctime(|| fs::rename("file", "x").and_then(|()| fs::rename("x", "file")))),
    ("ctime.set_times", || {
        changes_ctime(|| File::open("file")?.set_modified(std::time::SystemTime::UNIX_EPOCH))
    }),
    ("ctime.set_times.none", || changes_ctime(|| File::open("file")?.set_times(fs::FileTimes::new()))),
    ("ctime.set_len", || changes_ctime(|| File::options().write(true).open("file")?.set_len(3))),
    ("ctime.open", || changes_ctime(|| File::options().append(true).open("file").map(drop))),
    ("ctime.open.truncate", || changes_ctime(|| File::create("file").map(drop))),
    ("ctime.write.nothing", || {
        changes_ctime(|| File::options().append(true).open("file")?.write(b"").map(drop))
    }),
    ("ctime.lock", || changes_ctime(|| File::open("file")?.lock())),
];
