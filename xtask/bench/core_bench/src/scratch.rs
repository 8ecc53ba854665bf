//! A folder for files in memory.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The tmpfs that every Linux distribution mounts.
const SHARED_MEMORY: &str = "/dev/shm";

/// Number of the next scratch folder of this program.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Environment variable with the path of a folder to use instead.
const FOLDER: &str = "CORE_BENCH_FOLDER";

/// Returns the folder that [`FOLDER`] names. Otherwise returns a folder whose files are in memory, if the
/// system has one.
pub(crate) fn root() -> io::Result<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER) {
        return Ok(folder.into());
    }
    let shared = Path::new(SHARED_MEMORY);
    let root = if shared.is_dir() { shared.to_owned() } else { env::temp_dir() };
    // The folder for temporary files may not exist: a guest has only this program.
    fs::create_dir_all(&root)?;
    Ok(root)
}

/// A folder that is removed with its contents.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let name = format!("core_bench.{}.{}", process::id(), NEXT.fetch_add(1, Relaxed));
        let path = root()?.join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // An error is ignored: the files are in memory, or in the folder for temporary files.
        let _: io::Result<()> = fs::remove_dir_all(&self.0);
    }
}
