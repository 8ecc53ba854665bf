//! Restriction of files, TCP and signals by landlock(7).

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Folder, SandboxError};

/// Newest ABI of landlock whose access rights are handled. A kernel with an older ABI enforces the rights that it
/// knows.
const ABI_VERSION: ABI = ABI::V9;

/// Denies access to all paths except below `folders`, bind and connect of TCP ports, and signals and abstract sockets
/// to other processes. Open files remain usable.
pub(super) fn restrict(folders: &[Folder]) -> Result<(), SandboxError> {
    let mut ruleset = new_ruleset()?;
    for folder in folders {
        let descriptor = PathFd::new(&folder.path)
            .map_err(|source| SandboxError::Folder { path: folder.path.clone(), source })?;
        ruleset = ruleset.add_rule(PathBeneath::new(descriptor, rights(folder)))?;
    }
    if ruleset.restrict_self()?.ruleset == RulesetStatus::NotEnforced {
        log::warn!("sandbox: the host's kernel has no landlock; system calls are filtered all the same");
    }
    Ok(())
}

/// Creates a ruleset that allows nothing, for the guest's process. Returns `None` if the kernel lacks landlock.
pub(crate) fn empty_ruleset() -> Result<Option<OwnedFd>, RulesetError> {
    new_ruleset().map(Option::from)
}

/// Creates a ruleset that handles all access rights and allows none.
fn new_ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_VERSION))?
        .handle_access(AccessNet::from_all(ABI_VERSION))?
        .scope(Scope::from_all(ABI_VERSION))?
        .create()
}

/// Access rights below a folder: no execution of files, and no device files.
fn rights(folder: &Folder) -> BitFlags<AccessFs> {
    if folder.read_only {
        return AccessFs::ReadFile | AccessFs::ReadDir;
    }
    AccessFs::from_all(ABI_VERSION)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}
