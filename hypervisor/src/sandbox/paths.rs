//! Giving up files, TCP and signals by landlock(7).

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Folder, SandboxError};

/// The newest version whose rights are known here. A host with an older one takes away what it knows.
const NEWEST: ABI = ABI::V9;

/// From now on no path can be used but those below `folders`, no TCP port bound or connected, and no process outside
/// reached by signals or abstract sockets. What is open stays usable.
pub(super) fn restrict(folders: &[Folder]) -> Result<(), SandboxError> {
    let mut rules = nothing()?;
    for folder in folders {
        let descriptor = PathFd::new(&folder.path)
            .map_err(|source| SandboxError::Folder { path: folder.path.clone(), source })?;
        rules = rules.add_rule(PathBeneath::new(descriptor, rights(folder)))?;
    }
    if rules.restrict_self()?.ruleset == RulesetStatus::NotEnforced {
        log::warn!("sandbox: the host's kernel has no landlock; system calls are filtered all the same");
    }
    Ok(())
}

/// Rules by which nothing can be reached. For a process of its own: no descriptor where the host has no landlock.
pub(crate) fn empty_rules() -> Result<Option<OwnedFd>, RulesetError> {
    nothing().map(Option::from)
}

fn nothing() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()
}

/// Nothing of a guest is executed on the host, and no guest needs the host's devices.
fn rights(folder: &Folder) -> BitFlags<AccessFs> {
    if folder.read_only {
        return AccessFs::ReadFile | AccessFs::ReadDir;
    }
    AccessFs::from_all(NEWEST)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}
