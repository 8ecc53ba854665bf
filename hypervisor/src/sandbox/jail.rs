//! `--jail`: namespaces, root folder and user of this process and the guest's, as Firecracker's jailer sets
//! them.
//!
//! uhyve must be started by root for this. After it has opened all files, it leaves the host's namespaces, so
//! it sees neither the host's mounts nor its network; makes an empty folder, or the given one, its read-only
//! root; and takes the given user and group. Namespaces and the root folder come first, because they take
//! capabilities that are dropped later.
#![expect(unsafe_code, reason = "unshare(2) can separate the threads' tables of descriptors")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use hermit_options::open::{Kind, Opener};
use rustix::fs::{Mode, fstat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};
use rustix::process::{Gid, Uid, chdir, pivot_root};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid, unshare_unsafe,
};

use crate::config::jail::Jail;

/// Namespaces of the host that the process leaves. It cannot leave its PID namespace: a process stays in the
/// one that it was created in.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// Names of the namespaces of a jail in messages.
const NAMESPACE_NAMES: &str =
    "mount, network, IPC, UTS and cgroup namespaces, and a PID namespace for a guest as process";

/// Capabilities that the start of a jail takes, and their names.
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
];

/// Folder at which the new root folder is mounted first: it exists on every host on which uhyve runs.
const MOUNT_POINT: &str = "/proc";

/// Flags of the mount of the root folder.
const ROOT_FLAGS: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Access rights that others than root may not have to the root folder: writing, by the group or by all.
const WRITABLE: Mode = Mode::WGRP.union(Mode::WOTH);

/// Why a jail cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The sandbox, which the jail is a part of, is switched off.
    #[error("--jail: there is no jail without the sandbox")]
    NoSandbox,
    /// uhyve lacks a capability.
    #[error("--jail: {0} is missing: start uhyve as root")]
    Capability(&'static str),
    /// The path of the root folder is not that of a folder that can be opened.
    #[error("--jail: {path} is no folder for a root: {source}", path = .path.display())]
    NoFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// Others than root could put files into the root folder.
    #[error(
        "--jail: {path} can be written by others: it must belong to root, and group and others must not write to it",
        path = .0.display()
    )]
    Writable(PathBuf),
    /// The host refuses a step.
    #[error("--jail: cannot {action}: {source}")]
    Host {
        /// Step that was tried.
        action: &'static str,
        /// Error of the host.
        source: io::Error,
    },
}

/// Converts the error of a system call into one that names the `action`.
fn failed(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> JailError {
    move |error| JailError::Host { action, source: error.into() }
}

/// Checks privileges and the root folder, before anything else is started.
pub(crate) fn check(jail: &Jail) -> Result<(), JailError> {
    let effective = capabilities(None).map_err(failed("read capabilities"))?.effective;
    if let Some((_, name)) = NEEDED.iter().find(|(capability, _)| !effective.contains(*capability)) {
        return Err(JailError::Capability(name));
    }
    jail.root.as_deref().map(open_root).transpose()?;
    Ok(())
}

/// Opens the root folder, which only root can write to.
fn open_root(path: &Path) -> Result<OwnedFd, JailError> {
    let no_folder = |source: io::Error| JailError::NoFolder { path: path.to_owned(), source };
    let folder = Opener::default().find(path, Kind::Folder).map_err(no_folder)?;
    let status = fstat(&folder).map_err(|error| no_folder(error.into()))?;
    if status.st_uid != 0 || Mode::from_raw_mode(status.st_mode).intersects(WRITABLE) {
        return Err(JailError::Writable(path.to_owned()));
    }
    Ok(folder)
}

/// Leaves the host's namespaces, and changes the root folder. If the guest's connections are sockets of this
/// process, it stays in the host's network namespace.
pub(super) fn enter(jail: &Jail, has_sockets: bool) -> Result<(), JailError> {
    check(jail)?;
    let kept = if has_sockets { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
    // SAFETY: the hazard of unshare(2) is CLONE_FILES, after which threads have different tables of
    // descriptors: `NAMESPACES` does not have it. The calling thread is the only one, as
    // `Sandbox::confine_process` demands, so no other thread stays behind in the old namespaces.
    unsafe { unshare_unsafe(NAMESPACES.difference(kept)) }.map_err(failed("leave the host's namespaces"))?;
    // Mounts of this namespace must not appear in the host's.
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(failed("separate mounts"))?;
    // Opened here, because only folders of the own namespace can be mounted.
    let root = jail.root.as_deref().map(open_root).transpose()?;
    mount_root(root.as_ref()).map_err(failed("mount the root folder"))?;
    change_root().map_err(failed("change the root folder"))
}

/// Mounts the root folder, read-only: `root`, or an empty one.
fn mount_root(root: Option<&OwnedFd>) -> rustix::io::Result<()> {
    let Some(root) = root else {
        return mount("none", MOUNT_POINT, "tmpfs", ROOT_FLAGS, c"mode=0555,size=4k");
    };
    // By its descriptor: this is the folder that was checked, whatever its path leads to by now.
    mount_bind(format!("/proc/self/fd/{}", root.as_raw_fd()), MOUNT_POINT)?;
    mount_remount(MOUNT_POINT, MountFlags::BIND | ROOT_FLAGS, c"")
}

/// Makes the mounted folder the root, and removes all other mounts.
fn change_root() -> rustix::io::Result<()> {
    chdir(MOUNT_POINT)?;
    // The old root is mounted on top of the new one (pivot_root(2)).
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Takes the user and the group of the jail, as real, effective and saved IDs. Permitted capabilities stay.
pub(super) fn take_ids(jail: &Jail) -> Result<(), JailError> {
    let (uid, gid) = (Uid::from_raw(jail.uid), Gid::from_raw(jail.gid));
    set_keep_capabilities(true).map_err(failed("keep capabilities"))?;
    set_thread_groups(&[]).map_err(failed("leave all groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(failed("take the group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(failed("take the user"))?;
    set_keep_capabilities(false).map_err(failed("drop capabilities"))
}

/// Enters the jail, or one of an arbitrary user, and describes it for `--check`. This process can do little
/// afterwards.
pub(crate) fn try_out(jail: Option<&Jail>) -> String {
    let sample = Jail { uid: 65_534, gid: 65_534, root: None };
    let tried = jail.unwrap_or(&sample);
    match enter(tried, false).and_then(|()| take_ids(tried)) {
        Err(error) => error.to_string().trim_start_matches("--jail: ").to_owned(),
        Ok(()) => jail.map_or_else(|| "works; it is in force with --jail only".to_owned(), describe),
    }
}

fn describe(jail: &Jail) -> String {
    let Jail { uid, gid, root } = jail;
    let root = root.as_ref().map_or_else(
        || "an empty root folder".to_owned(),
        |root| format!("the root folder {}", root.display()),
    );
    format!("works: user {uid}, group {gid}, {root}, {NAMESPACE_NAMES}")
}

#[cfg(test)]
mod tests {
    use super::{JailError, open_root};
    use rustix::process::geteuid;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn root_folder_is_a_folder_that_only_root_can_write_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.as_path(), &folder.path().join("none")] {
            assert!(matches!(open_root(path), Err(JailError::NoFolder { .. })), "{path:?}");
        }
        for (mode, is_writable) in
            [(0o755, !geteuid().is_root()), (0o775, true), (0o757, true), (0o1777, true)]
        {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let result = open_root(folder.path());
            assert_eq!(matches!(result, Err(JailError::Writable(_))), is_writable, "{mode:o}: {result:?}");
        }
    }
}
