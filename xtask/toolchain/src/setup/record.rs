//! The record of everything that set-up added to the toolchain, so that the additions can be removed; and the
//! lock that admits only one set-up at a time.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};

use crate::target::FloatAbi;
use crate::toolchain::Toolchain;

/// An addition to the toolchain or the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addition {
    /// The whole folder of this target.
    Folder(&'static str),
    /// A target that set-up installed with rustup.
    RustupTarget(&'static str),
    /// A component that set-up installed with rustup.
    RustupComponent(&'static str),
    /// A package of the operating system.
    Package(&'static str),
}

impl Addition {
    /// Returns the line of the record.
    fn line(self) -> String {
        let (kind, name) = match self {
            Self::Folder(name) => ("folder", name),
            Self::RustupTarget(name) => ("rustup-target", name),
            Self::RustupComponent(name) => ("rustup-component", name),
            Self::Package(name) => ("package", name),
        };
        format!("{kind} {name}")
    }
}

/// Set-up's folder in the toolchain, locked by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    folder: PathBuf,
    _lock: File,
}

impl Record {
    /// Waits until no other set-up of this toolchain is under way.
    pub(crate) fn open(toolchain: &Toolchain) -> Result<Self> {
        let folder = toolchain.records();
        loop {
            fs::create_dir_all(&folder).with_context(|| not_writable(&folder))?;
            if let Some(lock) = lock(&folder)? {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// Records an addition that is about to be made.
    pub(crate) fn add(&self, addition: Addition) -> Result<()> {
        let mut lines = self.lines();
        if lines.insert(addition.line()) { self.write(&lines) } else { Ok(()) }
    }

    /// Removes an addition from the record.
    pub(crate) fn remove(&self, addition: Addition) -> Result<()> {
        let mut lines = self.lines();
        if lines.remove(&addition.line()) { self.write(&lines) } else { Ok(()) }
    }

    /// Returns true if set-up made this addition.
    pub(crate) fn has(&self, addition: Addition) -> bool {
        self.lines().contains(&addition.line())
    }

    /// Returns the path of a part's stamp.
    pub(crate) fn stamp(&self, part: &str) -> PathBuf {
        stamp(&self.folder, part)
    }

    /// Removes the stamp of a part, which then counts as not installed.
    pub(crate) fn remove_stamp(&self, part: &str) -> Result<()> {
        let stamp = self.stamp(part);
        match fs::remove_file(&stamp) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", stamp.display()))
            }
            _ => Ok(()),
        }
    }

    /// Removes the record itself.
    pub(crate) fn delete(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    fn lines(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(self.folder.join("added")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &BTreeSet<String>) -> Result<()> {
        let (path, partial) = (self.folder.join("added"), self.folder.join("added.partial"));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns the path of a part's stamp in the given folder of records.
pub(crate) fn stamp(records: &std::path::Path, part: &str) -> PathBuf {
    records.join(format!("{part}.stamp"))
}

/// Returns the error message for a file of the toolchain that set-up cannot write. The message names two
/// remedies.
fn not_writable(file: &std::path::Path) -> String {
    format!(
        "cannot write to the Rust toolchain, to which these sources have something to add: run `cargo xtask setup` as a user who \
         can, or set RUSTUP_HOME to the folder of a toolchain of your own (cannot open {})",
        file.display()
    )
}

/// Locks the folder. Returns `None` if another process removed the folder meanwhile.
fn lock(folder: &std::path::Path) -> Result<Option<File>> {
    let path = folder.join("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| not_writable(&path)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another set-up of this toolchain");
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    let ours = file.metadata().context("cannot read the lock file")?;
    let there = fs::metadata(&path).ok();
    Ok(there.filter(|there| there.ino() == ours.ino() && there.dev() == ours.dev()).map(|_| file))
}
/// Returns the name of std's stamp.
pub(super) fn std_part(float: FloatAbi) -> &'static str {
    match float {
        FloatAbi::Hard => "std",
        FloatAbi::Soft => "std-softfloat",
    }
}

/// Returns a text that identifies the installation of the libraries to which programs are linked. It consists
/// of the times at which they were installed.
pub(super) fn installation(toolchain: &Toolchain, float: FloatAbi) -> Result<String> {
    let installed = |part: &str| {
        let stamp = stamp(&toolchain.records(), part);
        let time = fs::metadata(&stamp).and_then(|data| data.modified());
        let time = time.with_context(|| format!("cannot read {}", stamp.display()))?;
        Ok(format!("{part} {}\n", time.duration_since(UNIX_EPOCH)?.as_nanos()))
    };
    ["bare", std_part(float)].into_iter().map(installed).collect()
}
