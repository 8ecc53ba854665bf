//! `--cgroup`: the cgroup of uhyve and of all processes that it starts (cgroups(7)).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process;

use anyhow::{Result, anyhow, bail};
use hermit_options::open::{Kind, Opener, beneath};
use rustix::fs::{Mode, OFlags, fstatfs};

/// File of a cgroup. A process moves to the cgroup when its ID is written to this file.
const PROCESSES: &str = "cgroup.procs";

/// Type of the file system of cgroups of version 2: `CGROUP2_SUPER_MAGIC` of Linux's `magic.h`.
const CGROUP2: u64 = 0x6367_7270;

/// Moves this process to the cgroup of this folder. Call it before memory is allocated for the guest and
/// before other processes are started, so that the cgroup is charged for them.
///
/// # Errors
///
/// The folder is not a cgroup, or this user may not move the process.
pub(crate) fn join(opener: &Opener, folder: &Path) -> Result<()> {
    let found = opener.find(folder, Kind::Folder);
    let is_cgroup =
        |found: &OwnedFd| fstatfs(found).is_ok_and(|system| u64::try_from(system.f_type) == Ok(CGROUP2));
    let Some(found) = found.ok().filter(is_cgroup) else {
        bail!("--cgroup: {} is no folder of cgroups of version 2", folder.display());
    };
    let file = beneath(found, PROCESSES.as_bytes(), OFlags::WRONLY, Mode::empty());
    let file = file.map(File::from).map_err(io::Error::from);
    let written = file.and_then(|mut file| file.write_all(process::id().to_string().as_bytes()));
    written.map_err(|error| anyhow!("--cgroup: {} cannot be joined: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::{Opener, PROCESSES, join};
    use std::fs;

    #[test]
    fn folder_without_limits_is_no_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PROCESSES), "").unwrap();
        let error = join(&Opener::default(), folder.path()).unwrap_err().to_string();
        assert!(error.contains("--cgroup") && error.contains(folder.path().to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join(PROCESSES)).unwrap(), "");
        assert!(join(&Opener::default(), &folder.path().join("none")).is_err());
    }
}
