//! Resolves `.` and `..` without the file system.

use std::path::Path;

use path_absolutize::Absolutize;

pub fn run() -> crate_uses::Result {
    for path in ["/a/./b/../c", "/../..", "/a//b/", "/a/b/../../../c"] {
        println!(
            "{:?} {:?}",
            Path::new(path).absolutize()?,
            Path::new(path).absolutize_virtually("/a").map_err(|error| error.to_string())
        );
    }
    for path in ["x/../y", "../z", "."] {
        println!("{:?}", Path::new(path).absolutize_from("/base/folder")?);
    }
    crate_uses::ensure(Path::new(".").absolutize()? == std::env::current_dir()?, "another folder")
}
