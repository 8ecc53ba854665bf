//! `--jail`: gives uhyve and the guest's process their own namespaces, root folder and user, like
//! Firecracker's jailer.
//!
//! uhyve must be started by root for this. It first opens all files. Then it leaves the host's namespaces, so
//! it sees neither the host's mounts nor its network. It makes an empty folder, or the given one, its
//! read-only root. At last it takes the given user and group. This comes last because the other steps require
//! capabilities.
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

/// Namespaces of the host that the process leaves. The PID namespace is missing: a process stays in the PID
/// namespace in which it was created.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// Names of the namespaces of a jail in messages.
const NAMESPACE_NAMES: &str =
    "mount, network, IPC, UTS and cgroup namespaces, and a PID namespace for a guest as process";

/// Capabilities that entering a jail requires, and their names.
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
];

/// Folder at which the new root folder is first mounted. /proc exists on every host on which uhyve runs.
const MOUNT_POINT: &str = "/proc";

/// Flags of the mount of the root folder.
const ROOT_FLAGS: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Mode bits that the root folder must not have: write permission for the group or for others.
const WRITABLE: Mode = Mode::WGRP.union(Mode::WOTH);

/// Why a jail cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The sandbox is switched off, and the jail is a part of it.
    #[error("--jail: there is no jail without the sandbox")]
    NoSandbox,
    /// uhyve lacks a capability.
    #[error("--jail: {0} is missing: start uhyve as root")]
    Capability(&'static str),
    /// The path of the root folder does not lead to a folder, or the folder cannot be opened.
    #[error("--jail: {path} is no folder for a root: {source}", path = .path.display())]
    NoFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// Users other than root could put files into the root folder.
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

/// Opens the root folder, and checks that only root can write to it.
fn open_root(path: &Path) -> Result<OwnedFd, JailError> {
    let no_folder = |source: io::Error| JailError::NoFolder { path: path.to_owned(), source };
    let folder = Opener::default().find(path, Kind::Folder).map_err(no_folder)?;
    let status = fstat(&folder).map_err(|error| no_folder(error.into()))?;
    if status.st_uid != 0 || Mode::from_raw_mode(status.st_mode).intersects(WRITABLE) {
        return Err(JailError::Writable(path.to_owned()));
    }
    Ok(folder)
}

/// Leaves the host's namespaces, and changes the root folder. With `has_sockets`, the process stays in the
/// host's network namespace, because it opens sockets for the guest's connections.
pub(super) fn enter(jail: &Jail, has_sockets: bool) -> Result<(), JailError> {
    check(jail)?;
    let kept = if has_sockets { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
    // SAFETY: the hazard of unshare(2) is CLONE_FILES, after which threads have different tables of
    // descriptors: `NAMESPACES` does not have it. The calling thread is the only one, as
    // `Sandbox::confine_process` demands, so no other thread stays behind in the old namespaces.
    unsafe { unshare_unsafe(NAMESPACES.difference(kept)) }.map_err(failed("leave the host's namespaces"))?;
    // Mounts in this namespace must not propagate to the host's namespace.
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(failed("separate mounts"))?;
    // Opened after unshare(2), because only folders of the process's own mount namespace can be bind-mounted.
    let root = jail.root.as_deref().map(open_root).transpose()?;
    mount_root(root.as_ref()).map_err(failed("mount the root folder"))?;
    change_root().map_err(failed("change the root folder"))
}

/// Mounts the root folder read-only at [`MOUNT_POINT`]: `root`, or an empty folder.
fn mount_root(root: Option<&OwnedFd>) -> rustix::io::Result<()> {
    let Some(root) = root else {
        return mount("none", MOUNT_POINT, "tmpfs", ROOT_FLAGS, c"mode=0555,size=4k");
    };
    // Mounted by its descriptor, because its path may lead to another folder than the checked one by now.
    mount_bind(format!("/proc/self/fd/{}", root.as_raw_fd()), MOUNT_POINT)?;
    mount_remount(MOUNT_POINT, MountFlags::BIND | ROOT_FLAGS, c"")
}

/// Makes the mounted folder the root, and removes all other mounts.
fn change_root() -> rustix::io::Result<()> {
    chdir(MOUNT_POINT)?;
    // With two equal paths, pivot_root(2) mounts the old root on top of the new one.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Sets the real, effective and saved IDs to the jail's user and group. Permitted capabilities stay.
pub(super) fn take_ids(jail: &Jail) -> Result<(), JailError> {
    let (uid, gid) = (Uid::from_raw(jail.uid), Gid::from_raw(jail.gid));
    set_keep_capabilities(true).map_err(failed("keep capabilities"))?;
    set_thread_groups(&[]).map_err(failed("leave all groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(failed("take the group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(failed("take the user"))?;
    set_keep_capabilities(false).map_err(failed("drop capabilities"))
}

/// Enters the jail, or a jail with an arbitrary user, and describes the result for `--check`. The jail cannot
/// be left, so call this last.
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
