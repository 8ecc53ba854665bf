//! The folder of objects outside of the toolchain. Set-up, which removes it, compiles this file, too.

use std::env;
use std::path::PathBuf;

/// Name of the folder of objects, in the folder of a target and in the user's cache folder.
pub(crate) const FOLDER: &str = "hermit-objects";

/// Returns the folder of objects in the user's folder for caches, according to the XDG base directory
/// specification; `None` if the user has no such folder.
pub(crate) fn folder() -> Option<PathBuf> {
    let caches = match env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder,
        _ => env::home_dir()?.join(".cache"),
    };
    Some(caches.join(FOLDER))
}
