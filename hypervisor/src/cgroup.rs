//! `--cgroup`: the cgroup of uhyve and of all processes that it starts (cgroups(7)).

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process;

use anyhow::{Result, anyhow};

/// File of a cgroup to which the ID of a process is written that moves there.
const PROCESSES: &str = "cgroup.procs";

/// Moves this process to the cgroup of this folder. Called before memory is allocated for the guest and other processes
/// are started, so that the cgroup is charged for them.
///
/// # Errors
///
/// The folder is no cgroup, or this user may not move the process.
pub(crate) fn join(folder: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).open(folder.join(PROCESSES));
    let written = file.and_then(|mut file| file.write_all(process::id().to_string().as_bytes()));
    written.map_err(|error| anyhow!("--cgroup: {} cannot be joined: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::{PROCESSES, join};
    use std::fs;

    #[test]
    fn own_process_is_written_to_an_existing_cgroup_only() {
        let folder = tempfile::tempdir().unwrap();
        let error = join(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--cgroup") && error.contains(folder.path().to_str().unwrap()), "{error}");
        assert!(!folder.path().join(PROCESSES).exists());
        fs::write(folder.path().join(PROCESSES), "").unwrap();
        join(folder.path()).unwrap();
        let written = fs::read_to_string(folder.path().join(PROCESSES)).unwrap();
        assert_eq!(written, std::process::id().to_string());
    }
}
