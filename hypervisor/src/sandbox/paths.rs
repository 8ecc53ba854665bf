//! Restriction of files, TCP and signals by landlock(7).

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Folder, SandboxError};

/// Landlock ABI version whose access rights the rulesets handle. A kernel with an older ABI enforces only the
/// rights that it knows.
const ABI_VERSION: ABI = ABI::V9;

/// Oldest ABI that has all restrictions on which the isolation of a process guest relies: files, TCP ports,
/// signals and abstract sockets (Linux 6.12).
const REQUIRED_ABI: ABI = ABI::V6;

/// How much of landlock the host's kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LandlockLevel {
    /// Files, TCP ports, signals and abstract sockets.
    Complete,
    /// Files, but not all of TCP ports, signals and abstract sockets.
    Partial,
    /// Nothing.
    Missing,
}

impl LandlockLevel {
    /// Returns the level of the host's kernel.
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

    /// Describes the missing parts; returns `None` if landlock is complete.
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

/// Denies access to all paths except below `folders`. Denies binding TCP ports, and connecting to them unless
/// `may_connect`. Denies signals to other processes, and connections to their abstract sockets. Open files
/// remain usable.
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
    // Rights that the host's kernel does not know are not enforced, so partial enforcement is no error.
    let is_enforced = level == LandlockLevel::Missing || status.ruleset != RulesetStatus::NotEnforced;
    if is_enforced { Ok(()) } else { Err(SandboxError::NotEnforced) }
}

/// Creates a ruleset that allows nothing, for the guest's process. Returns `None` if the kernel lacks
/// landlock.
pub(crate) fn empty_ruleset() -> Result<Option<OwnedFd>, RulesetError> {
    new_ruleset(AccessNet::from_all(ABI_VERSION)).map(Option::from)
}

/// Creates a ruleset that denies everything: it handles all access rights to files, and the rights `net` to
/// TCP ports, and has no rule.
fn new_ruleset(net: BitFlags<AccessNet>) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_VERSION))?
        .handle_access(net)?
        .scope(Scope::from_all(ABI_VERSION))?
        .create()
}

/// Returns the access rights below a folder: only those that the file-system device needs, and none that
/// later kernels add.
fn rights(folder: &Folder) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if folder.read_only {
        return read;
    }
    let write = AccessFs::WriteFile | AccessFs::Truncate;
    let make = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::MakeSym | AccessFs::Refer;
    read | write | make | AccessFs::RemoveFile | AccessFs::RemoveDir
}
