//! Installs std for the target of uhyve, if rustup provides it.

use std::path::Path;

use super::progress::Progress;
use super::record::Record;
use super::rustup;
use crate::target::UHYVE_TARGET;
use crate::toolchain::{Toolchain, file_names};

/// Installs the library if rustup provides it. A failure is not an error: uhyve can be built without the
/// library.
pub(super) fn ensure(toolchain: &Toolchain, record: &Record, progress: &Progress) {
    if is_complete(&toolchain.target(UHYVE_TARGET)) {
        return;
    }
    progress.note(&format!("std for {UHYVE_TARGET}, the target of uhyve: downloading it with rustup"));
    if let Err(error) = rustup::add(toolchain, record, UHYVE_TARGET, is_complete) {
        progress.note(&format!(
            "rustup does not provide it ({error:#}): uhyve uses the host's C library, whose start takes longer"
        ));
    }
}

/// Returns true if the toolchain has the library.
pub(super) fn is_installed() -> bool {
    Toolchain::detect().is_ok_and(|toolchain| is_complete(&toolchain.target(UHYVE_TARGET)))
}

/// Returns true if the folder of the target has std and the C library.
fn is_complete(folder: &Path) -> bool {
    let libraries = folder.join("lib");
    let has_std = file_names(&libraries).iter().any(|name| name.to_string_lossy().starts_with("libstd-"));
    has_std && libraries.join("self-contained/libc.a").is_file()
}

#[cfg(test)]
mod tests {
    use super::is_complete;
    use std::fs;

    #[test]
    fn library_without_c_library_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let libraries = folder.path().join("lib");
        fs::create_dir_all(libraries.join("self-contained")).unwrap();
        fs::write(libraries.join("libstd-1.rlib"), "").unwrap();
        assert!(!is_complete(folder.path()));
        fs::write(libraries.join("self-contained/libc.a"), "").unwrap();
        assert!(is_complete(folder.path()));
        fs::remove_file(libraries.join("libstd-1.rlib")).unwrap();
        assert!(!is_complete(folder.path()));
    }
}
