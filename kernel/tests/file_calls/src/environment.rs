//! The current directory, and lists of paths.

use std::path::PathBuf;
use std::{env, fs};

use crate::{Row, show};

pub(crate) const ROWS: &[Row] = &[
    ("current_dir", || {
        let before = env::current_dir()?;
        fs::create_dir_all("d/e")?;
        env::set_current_dir("d/e")?;
        let here = env::current_dir()?;
        Ok(format!("{:?}", here.strip_prefix(before)))
    }),
    ("current_dir.parent", || {
        let before = env::current_dir()?;
        fs::create_dir_all("d/e")?;
        env::set_current_dir("d/e")?;
        env::set_current_dir("../..")?;
        Ok(format!("{}", env::current_dir()? == before))
    }),
    ("current_dir.renamed", || {
        let before = env::current_dir()?;
        fs::create_dir("d")?;
        env::set_current_dir("d")?;
        fs::rename("../d", "../e")?;
        let here = env::current_dir()?;
        Ok(format!("{:?}", here.strip_prefix(before)))
    }),
    ("current_dir.removed", || {
        fs::create_dir("d")?;
        env::set_current_dir("d")?;
        fs::remove_dir("../d")?;
        let found = show::result(env::current_dir());
        Ok(found + " " + &show::success(fs::write("x", "")) + " " + &show::success(fs::metadata(".")))
    }),
    ("set_current_dir.absent", || Ok(show::result(env::set_current_dir("absent")))),
    ("set_current_dir.file", || {
        Ok(show::result(fs::write("x", "").and_then(|()| env::set_current_dir("x"))))
    }),
    ("set_current_dir.root", || {
        env::set_current_dir("/")?;
        Ok(show::result(env::current_dir()))
    }),
    ("split_paths", || Ok(format!("{:?}", env::split_paths("/a:b::/c d:").collect::<Vec<_>>()))),
    ("split_paths.empty", || Ok(format!("{:?}", env::split_paths("").collect::<Vec<_>>()))),
    ("join_paths", || Ok(format!("{:?}", env::join_paths(["/a", "", "b"]).ok()))),
    ("join_paths.separator", || {
        Ok(env::join_paths(["a:b"]).err().map(|error| error.to_string()).unwrap_or_default())
    }),
    ("temp_dir.exists", || Ok(show::metadata(&fs::metadata(env::temp_dir())?))),
    ("current_exe.is.absolute", || Ok(show::result(env::current_exe().map(|path| path.is_absolute())))),
    ("home_dir.is.a.variable", || {
        Ok(format!("{}", env::home_dir().is_some() >= env::var_os("HOME").is_some()))
    }),
    ("absolute", || {
        let here = env::current_dir()?;
        Ok(format!("{:?}", std::path::absolute("a/../b")?.strip_prefix(here).map(PathBuf::from)))
    }),
];
