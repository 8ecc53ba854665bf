//! Mounted folders: the value of `--mount`.
//!
//! `HOST:GUEST` makes a folder of the host visible at a path of the guest, with a virtio-fs device. The guest
//! finds the device by its tag: `fs0` for the first mount, `fs1` for the second one. A value is parsed from
//! its end, so a path of the host may contain colons and commas. The order of mounts matters: a mount may lie
//! inside an earlier mount, but must not hide it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::open::{Kind, Opener};
use crate::rate::RateLimits;

/// Directories on which the kernel itself mounts a file system.
const KERNEL_DIRECTORIES: [&str; 2] = ["dev", "proc"];

/// A folder of the host that the guest mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountConfig {
    /// Folder of the host.
    pub host: PathBuf,
    /// Absolute path in the guest, other than the root.
    pub guest: String,
    /// True if the guest cannot change the folder or its contents.
    pub read_only: bool,
    /// Time for which the guest may cache names and attributes.
    pub cache: CachePolicy,
    /// Limits of bytes and requests per second.
    pub limits: RateLimits,
}

/// Returns the tag by which the guest finds the device of the mount with this number.
#[must_use]
pub fn tag(number: usize) -> String {
    format!("fs{number}")
}

/// Time for which the guest may cache names and attributes without asking the host again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// One second. The guest may see changes by the host only after this time.
    #[default]
    Auto,
    /// Without limit. The guest may also cache that a name does not exist. For folders that nothing else
    /// changes.
    Always,
    /// Not at all. The guest sees changes by the host at once.
    Never,
}

impl CachePolicy {
    const NAMES: [(&str, Self); 3] = [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    /// Returns the name in the option.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Returns the time for which names and attributes are valid.
    #[must_use]
    pub const fn validity(self) -> Duration {
        match self {
            Self::Auto => Duration::from_secs(1),
            Self::Always => Duration::from_secs(24 * 60 * 60),
            Self::Never => Duration::ZERO,
        }
    }
}

/// A folder cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[error("cannot mount the folder {folder}: {source}", folder = .folder.display())]
pub struct MountError {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Error of the host.
    pub source: io::Error,
}

impl MountConfig {
    /// Returns the value of `--mount` that [`FromStr`] parses into this configuration.
    #[must_use]
    pub fn to_argument(&self) -> OsString {
        let mut text = self.host.clone().into_os_string();
        text.push(format!(":{}{}", self.guest, if self.read_only { ":ro" } else { "" }));
        if self.cache != CachePolicy::default() {
            text.push(format!(",cache={}", self.cache.name()));
        }
        let RateLimits { bytes, operations } = self.limits;
        bytes.iter().for_each(|rate| text.push(format!(",bps={rate}")));
        operations.iter().for_each(|rate| text.push(format!(",iops={rate}")));
        text
    }

    /// Checks that the host's folder exists.
    ///
    /// # Errors
    ///
    /// See [`MountError`].
    pub fn check(&self) -> Result<(), MountError> {
        let found = Opener::default().find(&self.host, Kind::Folder);
        found.map(drop).map_err(|source| MountError { folder: self.host.clone(), source })
    }
}

/// Returns an error if a mount would hide another mount or a directory of the kernel. The guest would then
/// not know on which files it works.
///
/// # Errors
///
/// A message that names the mount.
pub fn check_guest_paths(mounts: &[MountConfig]) -> Result<(), String> {
    for (number, mount) in mounts.iter().enumerate() {
        let path = components(&mount.guest);
        if KERNEL_DIRECTORIES.iter().any(|directory| path == [*directory]) {
            return Err(format!("--mount: {} is the kernel's own directory: choose another", mount.guest));
        }
        let is_hidden = |earlier: &&MountConfig| components(&earlier.guest).starts_with(&path);
        if let Some(hidden) = mounts.iter().take(number).find(is_hidden) {
            let (path, hidden) = (&mount.guest, &hidden.guest);
            return Err(format!(
                "--mount: {path} would hide {hidden}: name it first, or choose another path"
            ));
        }
    }
    Ok(())
}

/// Returns the names in a path of the guest.
fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !matches!(*name, "" | ".")).collect()
}

impl FromStr for MountConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || {
            "a mount is written HOST:/GUEST or HOST:/GUEST:ro, perhaps with ,cache=auto, always or never, ,bps=RATE or \
             ,iops=RATE"
        };
        let (mut rest, mut cache, mut limits) = (text, None, RateLimits::default());
        // Parsed from the end, so that paths may have commas.
        while let Some((before, option)) = rest.rsplit_once(',') {
            match option.split_once('=') {
                Some(("cache", name)) if cache.is_none() => {
                    let known = CachePolicy::NAMES.into_iter().find(|(known, _)| *known == name);
                    cache = Some(known.ok_or_else(usage)?.1);
                }
                Some(("bps", rate)) => limits.set_bytes(rate)?,
                Some(("iops", rate)) => limits.set_operations(rate)?,
                _ => break,
            }
            rest = before;
        }
        let (rest, read_only) = rest.strip_suffix(":ro").map_or((rest, false), |rest| (rest, true));
        // Parsed from the end, so that the host's path may have colons.
        let (host, guest) = rest.rsplit_once(':').ok_or_else(usage)?;
        let is_root = guest.bytes().all(|byte| byte == b'/');
        if host.is_empty() || !guest.starts_with('/') || is_root {
            return Err(usage().to_owned());
        }
        let cache = cache.unwrap_or_default();
        Ok(Self { host: host.into(), guest: guest.to_owned(), read_only, cache, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::{CachePolicy, MountConfig, check_guest_paths};
    use crate::rate::RateLimits;
    use std::fs;

    #[test]
    fn argument_and_value_are_inverse() {
        for (text, host, guest, read_only, cache) in [
            ("./site:/srv", "./site", "/srv", false, CachePolicy::Auto),
            ("/a:b,c:/d:ro", "/a:b,c", "/d", true, CachePolicy::Auto),
            ("a:/b c,cache=never", "a", "/b c", false, CachePolicy::Never),
            ("a:/b:ro,cache=always", "a", "/b", true, CachePolicy::Always),
        ] {
            let mount: MountConfig = text.parse().unwrap();
            let (host, guest, limits) = (host.into(), guest.to_owned(), RateLimits::default());
            let expected = MountConfig { host, guest, read_only, cache, limits };
            assert_eq!((&mount, mount.to_argument()), (&expected, text.into()));
        }
        let default: MountConfig = "a:/b,cache=auto".parse().unwrap();
        assert_eq!(default.to_argument(), "a:/b");
        let limited: MountConfig = "a:/b:ro,iops=5,cache=never,bps=1K/9".parse().unwrap();
        assert_eq!(limited.to_argument(), "a:/b:ro,cache=never,bps=1024/9,iops=5");
        assert!(limited.limits.bytes.is_some() && limited.limits.operations.is_some());
    }

    #[test]
    fn invalid_mounts_are_rejected_with_the_syntax() {
        for text in
            ["", "a", "a:b", ":/b", "a:", "a:/", "a://:ro", "a:ro", "a:/b:rw", "a:/b,cache=", "a:/b,cache=x"]
        {
            let error = text.parse::<MountConfig>().unwrap_err();
            assert!(error.contains("HOST:/GUEST:ro"), "{text}: {error}");
        }
    }

    #[test]
    fn mount_that_hides_another_is_rejected() {
        let check = |paths: &[&str]| {
            let mounts: Vec<MountConfig> =
                paths.iter().map(|path| format!("x:{path}").parse().unwrap()).collect();
            check_guest_paths(&mounts)
        };
        for paths in [&["/a", "/b"][..], &["/a", "/a/b"], &["/a", "/ab"], &["/dev/x", "/proc/y"]] {
            assert_eq!(check(paths), Ok(()), "{paths:?}");
        }
        for (paths, text) in [
            (&["/a", "/a"][..], "/a would hide /a"),
            (&["/a", "/b", "//a/./"], "//a/./ would hide /a"),
            (&["/a/b", "/a"], "/a would hide /a/b"),
            (&["/dev"], "/dev is the kernel's own"),
            (&["/proc/"], "/proc/ is the kernel's own"),
        ] {
            let error = check(paths).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn only_an_existing_folder_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for (host, is_valid) in
            [(folder.path().to_owned(), true), (file, false), (folder.path().join("none"), false)]
        {
            let mount = MountConfig { host, .."x:/y".parse().unwrap() };
            assert_eq!(mount.check().is_ok(), is_valid, "{mount:?}");
        }
    }
}
