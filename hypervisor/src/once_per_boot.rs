//! Notes that are printed once in each boot of the host and by each user, not at each start.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Identification of the host's boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Whether this is the first call with this key, a file name, since the host was booted. A host that cannot remember it
/// gets `true`: the note is printed again.
pub(crate) fn is_first(key: &str) -> bool {
    let Ok(boot) = fs::read_to_string(BOOT_ID) else { return true };
    is_first_in(&folder(), key, boot.trim())
}

fn is_first_in(folder: &Path, key: &str, boot: &str) -> bool {
    let file = folder.join(format!("uhyve-{}-{key}-{boot}", geteuid().as_raw()));
    // `create_new` follows no symbolic link, which another user could have created in a shared folder.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    !matches!(created, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

/// The user's folder of runtime files (XDG base directories), else the folder of temporary files.
fn folder() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.map_or_else(|| format!("/run/user/{}", geteuid().as_raw()).into(), PathBuf::from);
    if runtime.is_dir() { runtime } else { env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::is_first_in;

    #[test]
    fn only_the_first_call_of_a_boot_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let calls = [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2"), ("a", "2")];
        let first = calls.map(|(key, boot)| is_first_in(folder.path(), key, boot));
        assert_eq!(first, [true, false, true, true, false]);
        let missing = folder.path().join("missing");
        assert!(is_first_in(&missing, "a", "1") && is_first_in(&missing, "a", "1"));
    }
}
