//! Restriction of files, TCP and signals by landlock(7).

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Folder, SandboxError};

/// Newest ABI of landlock whose access rights are handled. A kernel with an older ABI enforces the rights
/// that it knows.
const ABI_VERSION: ABI = ABI::V9;

/// ABI with all that guests as processes rely on: files, TCP ports, signals and abstract sockets (Linux
/// 6.12).
const REQUIRED_ABI: ABI = ABI::V6;

/// How much of landlock the host's kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LandlockLevel {
    /// Files, TCP ports, signals and abstract sockets.
    Complete,
    /// Files, but not all of the rest.
    Partial,
    /// Nothing.
    Missing,
}

impl LandlockLevel {
    /// Examines the host's kernel.
    pub(crate) fn of_host() -> Self {
        let ruleset = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let complete = ruleset()
            .handle_access(AccessFs::from_all(REQUIRED_ABI))
            .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(REQUIRED_ABI)))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(REQUIRED_ABI)));
        if complete.is_ok() {
            Self::Complete
        } else if ruleset().handle_access(AccessFs::from_all(ABI::V1)).is_ok() {
            Self::Partial
        } else {
            Self::Missing
        }
    }

    /// Describes the level.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Complete => "complete: files, TCP ports, signals, abstract sockets",
            Self::Partial => "partial: the host's kernel is older than Linux 6.12",
            Self::Missing => "missing: the host's kernel lacks it or has disabled it (boot option lsm=)",
        }
    }

    /// Description of the missing parts; `None` if landlock is complete.
    pub(crate) fn missing(self) -> Option<String> {
        (self != Self::Complete).then(|| format!("landlock is {}", self.describe()))
    }

    /// Returns an error unless landlock is complete.
    pub(crate) const fn require(self) -> Result<(), SandboxError> {
        match self {
            Self::Complete => Ok(()),
            Self::Partial | Self::Missing => Err(SandboxError::Incomplete(self.describe())),
        }
    }
}

/// Denies access to all paths except below `folders`. Denies to bind TCP ports, to connect them unless
/// `may_connect`, and to reach signals and abstract sockets of other processes. Open files remain usable.
///
/// # Errors
///
/// The host does not enforce the parts of landlock that it has (`level`).
pub(super) fn restrict(
    folders: &[Folder],
    may_connect: bool,
    level: LandlockLevel,
) -> Result<(), SandboxError> {
    let all = AccessNet::from_all(ABI_VERSION);
    let mut ruleset = new_ruleset(if may_connect { all & !AccessNet::ConnectTcp } else { all })?;
    for folder in folders {
        ruleset = ruleset.add_rule(PathBeneath::new(&*folder.descriptor, rights(folder)))?;
    }
    let status = ruleset.restrict_self()?;
    // The rights of newer kernels than the host's are not enforced.
    let is_enforced = level == LandlockLevel::Missing || status.ruleset != RulesetStatus::NotEnforced;
    if is_enforced { Ok(()) } else { Err(SandboxError::NotEnforced) }
}

/// Creates a ruleset that allows nothing, for the guest's process. Returns `None` if the kernel lacks
/// landlock.
pub(crate) fn empty_ruleset() -> Result<Option<OwnedFd>, RulesetError> {
    new_ruleset(AccessNet::from_all(ABI_VERSION)).map(Option::from)
}

/// Creates a ruleset that handles all access rights, but of TCP ports those of `net`, and allows none.
fn new_ruleset(net: BitFlags<AccessNet>) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_VERSION))?
        .handle_access(net)?
        .scope(Scope::from_all(ABI_VERSION))?
        .create()
}

/// Access rights below a folder: those that the file-system device needs, and no rights that later kernels
/// add.
fn rights(folder: &Folder) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if folder.read_only {
        return read;
    }
    let write = AccessFs::WriteFile | AccessFs::Truncate;
    let make = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::MakeSym | AccessFs::Refer;
    read | write | make | AccessFs::RemoveFile | AccessFs::RemoveDir
}
