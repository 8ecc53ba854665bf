//! `OpenOptions` in every combination, and what opening fails with.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};

use crate::{Row, show};

pub(crate) const ROWS: &[Row] = &[
    ("open.combinations.absent", || combinations(|| Ok(()))),
    ("open.combinations.existing", || combinations(|| fs::write("file", "old"))),
    ("open.combinations.directory", || combinations(|| fs::create_dir("file"))),
    ("open.absent", || Ok(show::success(File::open("absent")))),
    ("open.directory", || {
        fs::create_dir("directory")?;
        let mut directory = File::open("directory")?;
        Ok(show::result(directory.read(&mut [0; 10])))
    }),
    ("open.directory.metadata", || {
        fs::create_dir("directory")?;
        Ok(show::metadata(&File::open("directory")?.metadata()?))
    }),
    ("open.create.directory", || {
        fs::create_dir("directory")?;
        Ok(show::success(File::create("directory")))
    }),
    ("open.create.slash", || Ok(show::success(File::create("file/")))),
    ("open.slash.file", || {
        fs::write("file", "")?;
        Ok(show::success(File::open("file/")))
    }),
    ("open.below.file", || {
        fs::write("file", "")?;
        Ok(show::success(File::open("file/x")) + " " + &show::success(File::create("file/x")))
    }),
    ("open.below.absent", || Ok(show::success(File::create("absent/x")))),
    ("open.empty", || Ok(show::success(File::open("")))),
    ("open.zero.byte", || Ok(show::success(File::open("a\0b")))),
    ("open.create_new.twice", || {
        let first = File::create_new("file").map(drop);
        Ok(show::result(first) + " " + &show::success(File::create_new("file")))
    }),
    ("open.create.truncates", || {
        fs::write("file", "contents")?;
        File::create("file")?;
        show::tree(".")
    }),
    ("open.read.only.write", || {
        fs::write("file", "contents")?;
        Ok(show::result(File::open("file")?.write(b"x")))
    }),
    ("open.write.only.read", || Ok(show::result(File::create("file")?.read(&mut [0; 5])))),
    ("open.many", || {
        let files =
            (0..100).map(|number| File::create(format!("{number}"))).collect::<io::Result<Vec<_>>>()?;
        Ok(format!("{} {}", files.len(), fs::read_dir(".")?.count()))
    }),
    ("open.device.null", || {
        let mut null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        Ok(format!("{} {}", show::result(null.write(b"abc")), show::result(null.read(&mut [1; 3]))))
    }),
    ("open.device.zero", || {
        let mut bytes = [1; 3];
        Ok(show::result(File::open("/dev/zero")?.read(&mut bytes)) + &format!(" {bytes:?}"))
    }),
    ("open.device.full", || {
        Ok(show::result(OpenOptions::new().write(true).open("/dev/full")?.write(b"abc")))
    }),
    ("open.device.random", || Ok(show::result(File::open("/dev/urandom")?.read(&mut [0; 100])))),
    ("open.device.metadata", || Ok(show::metadata(&fs::metadata("/dev/null")?))),
];

/// Opens `file` with all 64 combinations of options, each after `prepare`, and writes and reads.
fn combinations(prepare: fn() -> io::Result<()>) -> io::Result<String> {
    let mut text = Vec::new();
    for bits in 0_u32..64 {
        prepare()?;
        let has = |bit: u32| bits & (1 << bit) != 0;
        let mut options = OpenOptions::new();
        options.read(has(0)).write(has(1)).append(has(2)).truncate(has(3)).create(has(4)).create_new(has(5));
        let opened = options.open("file");
        text.push(match opened {
            Ok(mut file) => {
                let mut bytes = String::new();
                let written = file.write(b"new!").map_err(|error| error.raw_os_error());
                let read = file.read_to_string(&mut bytes).map_err(|error| error.raw_os_error());
                let contents = fs::read_to_string("file").unwrap_or_default();
                format!("{written:?},{read:?},{contents}")
            }
            Err(error) => show::error(&error),
        });
        if fs::remove_file("file").is_err() && fs::metadata("file").is_ok() {
            fs::remove_dir("file")?;
        }
    }
    Ok(text.join("; "))
}
