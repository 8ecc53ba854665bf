//! Every call with every kind of path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::time::{Duration, SystemTime};
use std::{env, path::Path, path::PathBuf};

use crate::show;
use crate::system::symlink;

/// A kind of path, and a path of that kind.
type Place = (&'static str, fn() -> String);

/// A call: its name, and the function that makes it for a path.
type Call = (&'static str, fn(&str) -> io::Result<String>);

const PLACES: [Place; 25] = [
    ("absent", || "absent".into()),
    ("absent.slash", || "absent/".into()),
    ("file", || "f".into()),
    ("file.slash", || "f/".into()),
    ("directory", || "e".into()),
    ("directory.slash", || "e/".into()),
    ("full.directory", || "d".into()),
    ("link.to.file", || "lf".into()),
    ("link.to.file.slash", || "lf/".into()),
    ("link.to.directory", || "ld".into()),
    ("link.to.directory.slash", || "ld/".into()),
    ("dangling.link", || "dangling".into()),
    ("dangling.link.slash", || "dangling/".into()),
    ("link.to.itself", || "loop".into()),
    ("below.file", || "f/x".into()),
    ("below.absent", || "absent/x".into()),
    ("below.link", || "ld/x".into()),
    ("empty", String::new),
    ("zero.byte", || "a\0b".into()),
    ("dot", || ".".into()),
    ("directory.dot", || "d/.".into()),
    ("directory.parent", || "d/..".into()),
    ("root", || "/".into()),
    ("long.name", || "x".repeat(256)),
    ("long.path", || "./".repeat(2048)),
];

const CALLS: [Call; 29] = [
    ("open", |path| Ok(show::success(File::open(path)))),
    ("open.write", |path| Ok(show::success(OpenOptions::new().write(true).open(path)))),
    ("open.append", |path| Ok(show::success(OpenOptions::new().append(true).create(true).open(path)))),
    ("open.truncate", |path| Ok(show::success(OpenOptions::new().write(true).truncate(true).open(path)))),
    ("create", |path| Ok(show::success(File::create(path)))),
    ("create_new", |path| Ok(show::success(File::create_new(path)))),
    ("read", |path| Ok(show::result(fs::read_to_string(path)))),
    ("write", |path| Ok(show::result(fs::write(path, "new")))),
    ("metadata", |path| Ok(show::result(fs::metadata(path).map(|found| show::metadata(&found))))),
    ("symlink_metadata", |path| {
        Ok(show::result(fs::symlink_metadata(path).map(|found| show::metadata(&found))))
    }),
    ("exists", |path| Ok(show::result(fs::exists(path)))),
    ("remove_file", |path| Ok(show::result(fs::remove_file(path)))),
    ("remove_dir", |path| Ok(show::result(fs::remove_dir(path)))),
    ("remove_dir_all", |path| Ok(show::result(fs::remove_dir_all(path)))),
    ("create_dir", |path| Ok(show::result(fs::create_dir(path)))),
    ("create_dir_all", |path| Ok(show::result(fs::create_dir_all(path)))),
    ("read_dir", |path| Ok(show::success(fs::read_dir(path)))),
    ("rename.from", |path| Ok(show::result(fs::rename(path, "new")))),
    ("rename.file.to", |path| Ok(show::result(fs::rename("f", path)))),
    ("rename.directory.to", |path| Ok(show::result(fs::rename("e", path)))),
    ("hard_link.from", |path| Ok(show::result(fs::hard_link(path, "new")))),
    ("hard_link.to", |path| Ok(show::result(fs::hard_link("f", path)))),
    ("symlink", |path| Ok(show::result(symlink("f", path)))),
    ("read_link", |path| Ok(show::result(fs::read_link(path)))),
    ("canonicalize", canonicalize),
    ("copy.from", |path| Ok(show::result(fs::copy(path, "new")))),
    ("copy.to", |path| Ok(show::result(fs::copy("d/x", path)))),
    ("set_permissions", |path| {
        // With these permissions, the folder can be emptied without privileges. A file server has no
        // privileges on the host.
        let permissions = fs::metadata("d")?.permissions();
        Ok(show::result(fs::set_permissions(path, permissions)))
    }),
    ("set_current_dir", |path| Ok(show::result(env::set_current_dir(path)))),
];

/// `canonicalize`, relative to the current directory if the result is below it.
fn canonicalize(path: &str) -> io::Result<String> {
    let here = fs::canonicalize(".")?;
    let relative =
        |found: PathBuf| found.strip_prefix(&here).map_or(found.clone(), |below| Path::new(".").join(below));
    Ok(show::result(fs::canonicalize(path).map(relative)))
}

/// Returns true if a call would destroy files outside the row's folder, or if its result depends on the
/// mounts.
fn is_excluded(place: &str, call: &str) -> bool {
    match call {
        // glibc resolves it itself, and knows no limit.
        "canonicalize" => place == "long.path",
        "remove_dir_all" => matches!(place, "root" | "dot" | "directory.dot" | "directory.parent"),
        "rename.from" | "rename.file.to" | "rename.directory.to" | "hard_link.from" | "set_permissions" => {
            place == "root"
        }
        _ => false,
    }
}

/// Creates the files that the paths lead to.
fn prepare() -> io::Result<()> {
    fs::create_dir("d")?;
    fs::create_dir("e")?;
    fs::write("f", "abc")?;
    fs::write("d/x", "def")?;
    symlink("f", "lf")?;
    symlink("d", "ld")?;
    symlink("absent", "dangling")?;
    symlink("loop", "loop")
}

/// Describes the result of a call, and the tree if the call has changed it.
fn describe(path: &str, call: fn(&str) -> io::Result<String>) -> io::Result<String> {
    prepare()?;
    let here = env::current_dir()?;
    let before = show::tree(&here)?;
    let result = call(path)?;
    let after = show::tree(&here)?;
    Ok(if before == after { result } else { format!("{result} {after}") })
}

/// Calls `run` with the name and function of each row.
pub(crate) fn for_each(
    mut run: impl FnMut(&str, &dyn Fn() -> io::Result<String>) -> io::Result<()>,
) -> io::Result<()> {
    for (call_name, call) in CALLS {
        for (place, path) in PLACES {
            if !is_excluded(place, call_name) {
                run(&format!("{call_name}({place})"), &|| describe(&path(), call))?;
            }
        }
    }
    Ok(())
}

/// Changes in a read-only file system. Each of them has to fail with `EROFS`.
const CHANGES: [Call; 17] = [
    ("open.write", |_| Ok(show::success(OpenOptions::new().write(true).open("f")))),
    ("open.append", |_| Ok(show::success(OpenOptions::new().append(true).open("f")))),
    ("open.truncate", |_| Ok(show::success(OpenOptions::new().write(true).truncate(true).open("f")))),
    ("create", |_| Ok(show::success(File::create("new")))),
    ("create.existing", |_| Ok(show::success(File::create("f")))),
    ("create_new", |_| Ok(show::success(File::create_new("new")))),
    ("create_dir", |_| Ok(show::result(fs::create_dir("new")))),
    ("remove_file", |_| Ok(show::result(fs::remove_file("f")))),
    ("remove_dir", |_| Ok(show::result(fs::remove_dir("e")))),
    ("remove_dir_all", |_| Ok(show::result(fs::remove_dir_all("d")))),
    ("rename", |_| Ok(show::result(fs::rename("f", "new")))),
    ("rename.directory", |_| Ok(show::result(fs::rename("e", "new")))),
    ("hard_link", |_| Ok(show::result(fs::hard_link("f", "new")))),
    ("symlink", |_| Ok(show::result(symlink("f", "new")))),
    ("copy", |_| Ok(show::result(fs::copy("f", "new")))),
    ("set_permissions", |_| Ok(show::result(fs::set_permissions("f", fs::metadata("d")?.permissions())))),
    ("set_times", |_| {
        Ok(show::result(File::open("f")?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))))
    }),
];

/// Fills a folder with the files that [`check_read_only`] expects.
pub(crate) fn prepare_read_only(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    env::set_current_dir(folder)?;
    prepare()
}

/// Tries to change a folder that [`prepare_read_only`] has filled. Returns true if each change fails with
/// `EROFS` and the folder can be read.
pub(crate) fn check_read_only(folder: &Path) -> io::Result<bool> {
    env::set_current_dir(folder)?;
    let before = show::tree(".")?;
    let mut is_right = true;
    for (name, change) in CHANGES {
        let found = change("")?;
        if found != "error 30 ReadOnlyFilesystem" {
            println!("{name}: {found}");
            is_right = false;
        }
    }
    println!("{} changes tried", CHANGES.len());
    Ok(is_right && show::tree(".")? == before && fs::read_to_string("lf")? == "abc")
}
