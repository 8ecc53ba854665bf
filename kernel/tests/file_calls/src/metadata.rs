//! Metadata, permissions and times.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::time::{Duration, SystemTime};

use crate::{Row, show};

/// A point in time.
fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789)
}

fn times_of(path: &str) -> io::Result<String> {
    let found = fs::symlink_metadata(path)?;
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH);
    Ok(format!("{:?} {:?}", since(found.accessed()?), since(found.modified()?)))
}

/// Sets both times of a new file into the past.
fn old_file() -> io::Result<File> {
    fs::write("file", "abc")?;
    let file = OpenOptions::new().read(true).write(true).open("file")?;
    file.set_times(FileTimes::new().set_accessed(time(1000)).set_modified(time(2000)))?;
    Ok(file)
}

fn set_readonly(path: &str, readonly: bool) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(readonly);
    fs::set_permissions(path, permissions)
}

pub(crate) const ROWS: &[Row] = &[
    ("metadata.file", || Ok(show::metadata(&fs::write("file", "abc").and_then(|()| fs::metadata("file"))?))),
    ("metadata.directory", || Ok(show::metadata(&fs::metadata(".")?))),
    ("metadata.root", || Ok(show::metadata(&fs::metadata("/")?))),
    ("metadata.absent", || Ok(show::success(fs::metadata("absent")))),
    ("metadata.open.file", || {
        let mut file = File::create("file")?;
        file.write_all(b"abcd")?;
        Ok(show::metadata(&file.metadata()?))
    }),
    ("metadata.slash", || {
        fs::write("file", "")?;
        Ok(show::success(fs::metadata("file/")))
    }),
    ("exists", || {
        fs::write("file", "")?;
        Ok(format!(
            "{} {} {}",
            show::result(fs::exists("file")),
            show::result(fs::exists("absent")),
            show::result(fs::exists("file/x"))
        ))
    }),
    ("readonly", || {
        fs::write("file", "abc")?;
        set_readonly("file", true)?;
        let before = show::metadata(&fs::metadata("file")?);
        set_readonly("file", false)?;
        Ok(before + ", " + &show::metadata(&fs::metadata("file")?))
    }),
    ("readonly.open.file", || {
        let file = File::create("file")?;
        let mut permissions = file.metadata()?.permissions();
        permissions.set_readonly(true);
        file.set_permissions(permissions)?;
        Ok(show::metadata(&fs::metadata("file")?))
    }),
    ("readonly.absent", || {
        let permissions = fs::metadata(".")?.permissions();
        Ok(show::result(fs::set_permissions("absent", permissions)))
    }),
    ("times.order.files", || {
        let mut ordered = 0;
        for _ in 0..100 {
            fs::write("earlier", "text")?;
            let later = File::create_new("later")?;
            ordered += u32::from(fs::metadata("earlier")?.modified()? <= later.metadata()?.modified()?);
            fs::remove_file("later")?;
        }
        Ok(format!("{ordered} of 100"))
    }),
    ("times.set", || old_file().and_then(|_| times_of("file"))),
    ("times.set.one", || {
        let file = old_file()?;
        file.set_modified(time(3000))?;
        let first = times_of("file")?;
        file.set_times(FileTimes::new().set_accessed(time(4000)))?;
        Ok(first + ", " + &times_of("file")?)
    }),
    ("times.set.none", || {
        old_file()?.set_times(FileTimes::new())?;
        times_of("file")
    }),
    ("times.read.only.file", || {
        drop(old_file()?);
        let times = FileTimes::new().set_modified(time(9000));
        Ok(show::result(File::open("file")?.set_times(times)) + " " + &times_of("file")?)
    }),
    ("times.of.a.directory", || {
        fs::create_dir("directory")?;
        let times = FileTimes::new().set_modified(time(9000)).set_accessed(time(9));
        File::open("directory")?.set_times(times)?;
        times_of("directory")
    }),
    ("times.before.1970", || {
        let file = old_file()?;
        file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_millis(1500))?;
        let modified = file.metadata()?.modified()?;
        Ok(format!("{:?}", SystemTime::UNIX_EPOCH.duration_since(modified)))
    }),
    ("times.write.modifies", || {
        let mut file = old_file()?;
        file.write_all(b"x")?;
        Ok(format!("{}", file.metadata()?.modified()? > time(1_000_000)))
    }),
    ("times.read.accesses", || {
        let mut file = old_file()?;
        file.read_exact(&mut [0; 1])?;
        let found = file.metadata()?;
        Ok(format!("{} {}", found.accessed()? > time(1_000_000), found.modified()? == time(2000)))
    }),
    ("times.set_len.modifies", || {
        let file = old_file()?;
        file.set_len(3)?;
        Ok(format!("{}", file.metadata()?.modified()? > time(1_000_000)))
    }),
    ("times.entry.modifies.directory", || {
        fs::create_dir("directory")?;
        File::open("directory")?.set_modified(time(9000))?;
        fs::write("directory/file", "")?;
        Ok(format!("{}", fs::metadata("directory")?.modified()? > time(1_000_000)))
    }),
    ("times.now", || {
        let before = SystemTime::now() - Duration::from_secs(2);
        fs::write("file", "")?;
        let modified = fs::metadata("file")?.modified()?;
        Ok(format!("{}", modified > before && modified < SystemTime::now() + Duration::from_secs(2)))
    }),
];
