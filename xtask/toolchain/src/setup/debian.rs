//! Rust's sources from Debian, for hosts that reach a Debian mirror but not rustup's server.
//!
//! The package is downloaded and unpacked, but not installed, because an installed package would conflict
//! with rustup. apt writes only to a temporary folder, and uses the mirror that the host's apt is configured
//! with. apt's download methods parse the data that a server sends. If root starts apt, these methods run as
//! a separate user without privileges.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;

use crate::process;

/// The suite that carries current versions of Rust for Debian stable.
const SUITE: &str = "trixie-backports";

/// The suite that carries the sources of libraries.
const STABLE_SUITE: &str = "trixie";

/// User without privileges that Debian has for apt's download methods.
const DOWNLOAD_USER: &str = "_apt";

/// Folders below the temporary one that the download methods write to.
const FOLDERS: [&str; 3] = ["lists/partial", "cache/archives/partial", DOWNLOADS];

/// Folder of the downloaded files.
const DOWNLOADS: &str = "downloads";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads the sources of the given release of Rust into `work`, and returns the path of their `library`
/// folder.
pub(crate) fn unpack_sources(release: &str, work: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() || process::find("dpkg-deb").is_none() {
        bail!("Debian's package cannot be downloaded: this host has no apt-get or no dpkg-deb");
    }
    let mirror = mirror()?;
    let apt = Apt::new(work, "deb", &mirror, SUITE)?;
    eprintln!("      asking {mirror} for {SUITE}");
    process::run_captured(&mut apt.command("apt-get", &["update", "-qq"]))?;
    let versions = process::output(&mut apt.command("apt-cache", &["madison", "rust-src"]))?;
    let version = choose(&versions, release)
        .with_context(|| format!("{mirror} {SUITE} has no package rust-src of version {release}"))?;
    eprintln!("      downloading rust-src {version}");
    process::run_captured(&mut apt.command("apt-get", &["download", "-qq", &format!("rust-src={version}")]))?;
    let package = fs::read_dir(work.join(DOWNLOADS))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded no package")?;
    let unpacked = work.join("unpacked");
    process::run_captured(Command::new("dpkg-deb").arg("-x").args([&package, &unpacked]))?;
    Ok(unpacked.join(format!("usr/src/rustc-{release}/library")))
}

/// Downloads the sources of a package into `work`, and returns the path of the file named `file` among them.
pub(super) fn download_sources(package: &str, file: &str, work: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() {
        bail!("the sources of {package} cannot be downloaded: this host has no apt-get");
    }
    let mirror = mirror()?;
    let apt = Apt::new(work, "deb-src", &mirror, STABLE_SUITE)?;
    eprintln!("      asking {mirror} for the sources of {package}");
    process::run_captured(&mut apt.command("apt-get", &["update", "-qq"]))?;
    process::run_captured(&mut apt.command("apt-get", &["source", "--download-only", "-qq", package]))?;
    let path = work.join(DOWNLOADS).join(file);
    ensure!(path.is_file(), "{mirror} {STABLE_SUITE} has no {file}");
    Ok(path)
}

/// apt, whose lists and caches are in a temporary folder.
struct Apt<'a> {
    work: &'a Path,
    /// User of the download methods, if root starts apt.
    user: &'static str,
}

impl<'a> Apt<'a> {
    fn new(work: &'a Path, kind: &str, mirror: &str, suite: &str) -> Result<Self> {
        for folder in FOLDERS {
            fs::create_dir_all(work.join(folder)).context("cannot create folders for apt")?;
        }
        let user = match download_user() {
            Some(id) => {
                hand_over(work, id).context("cannot hand over folders to apt's download methods")?;
                DOWNLOAD_USER
            }
            None => "root",
        };
        let signed =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        fs::write(work.join("sources.list"), format!("{kind} {signed}{mirror} {suite} main\n"))
            .context("cannot write a sources list for apt")?;
        Ok(Self { work, user })
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        let settings = [
            ("Dir::Etc::sourcelist", self.work.join("sources.list").display().to_string()),
            ("Dir::Etc::sourceparts", "-".to_owned()),
            ("Dir::State::lists", self.work.join("lists").display().to_string()),
            ("Dir::Cache", self.work.join("cache").display().to_string()),
            ("APT::Sandbox::User", self.user.to_owned()),
            ("Acquire::Retries", "2".to_owned()),
            ("Acquire::http::Timeout", "20".to_owned()),
        ];
        for (name, value) in settings {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        command.args(args).current_dir(self.work.join(DOWNLOADS));
        command
    }
}

/// Returns the user of the download methods, if the host has that user and this process may change to it.
fn download_user() -> Option<u32> {
    let id = || process::output(Command::new("id").args(["-u", DOWNLOAD_USER])).ok();
    if geteuid().is_root() { id()?.trim_end().parse().ok() } else { None }
}

/// Makes `user` the owner of the folders that the download methods write to, and lets that user pass through
/// the temporary folders above.
fn hand_over(work: &Path, user: u32) -> Result<()> {
    for folder in FOLDERS {
        chown(work.join(folder), Some(user), None)?;
    }
    let temporary = env::temp_dir();
    for folder in work.ancestors().take_while(|folder| folder.starts_with(&temporary) && *folder != temporary)
    {
        let mode = fs::metadata(folder)?.mode() & 0o777;
        fs::set_permissions(folder, Permissions::from_mode(mode | 0o011))?;
    }
    Ok(())
}

/// Returns the first mirror of the Debian archive (not of its security updates) among the sources that apt is
/// configured with.
fn mirror() -> Result<String> {
    let targets = process::output(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    mirror_of(&targets).context("apt's configuration names no Debian mirror")
}

/// Returns the first mirror in a list of addresses.
fn mirror_of(addresses: &str) -> Option<String> {
    let found = addresses.lines().map(str::trim).find(|address| is_mirror(address))?;
    Some(found.trim_end_matches('/').to_owned())
}

fn is_mirror(word: &str) -> bool {
    let scheme = ["http://", "https://", "mirror+http://", "mirror+https://", "file:/"];
    scheme.iter().any(|scheme| word.starts_with(scheme)) && word.trim_end_matches('/').ends_with("/debian")
}

/// Returns the version of the package for the given release of Rust, from the table of `apt-cache madison`.
fn choose<'a>(versions: &'a str, release: &str) -> Option<&'a str> {
    let mut columns = versions.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    columns.find(|version| {
        version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['+', '-', '~']) || rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::{Apt, DOWNLOADS, FOLDERS, choose, download_user, mirror_of};
    use std::fs;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn download_methods_of_root_are_those_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let work = folder.path().join("work");
        let apt = Apt::new(&work, "deb", "http://deb.debian.org/debian", "stable").unwrap();
        let command = apt.command("apt-get", &["update"]);
        assert_eq!(command.get_current_dir(), Some(work.join(DOWNLOADS).as_path()));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let Some(user) = download_user() else {
            assert!(words.contains(&"APT::Sandbox::User=root".to_owned()), "{words:?}");
            return;
        };
        assert!(words.contains(&"APT::Sandbox::User=_apt".to_owned()), "{words:?}");
        for path in FOLDERS {
            assert_eq!(fs::metadata(work.join(path)).unwrap().uid(), user, "{path}");
        }
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o711);
    }

    #[test]
    fn mirror_is_the_first_of_the_archive() {
        let addresses = "http://security.example/debian-security/\nhttps://mirror.example/pub/debian/\n\
            http://deb.debian.org/debian/\n";
        assert_eq!(mirror_of(addresses).as_deref(), Some("https://mirror.example/pub/debian"));
        assert_eq!(mirror_of("http://archive.ubuntu.com/ubuntu/\n"), None);
        assert_eq!(mirror_of(""), None);
    }

    #[test]
    fn choose_returns_the_version_of_the_release() {
        let table = "  rust-src | 1.96.1+dfsg1-2~bpo13+1 | http://m trixie-backports/main\n\
            \x20 rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://m trixie-backports/main\n";
        assert_eq!(choose(table, "1.95.0"), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(choose(table, "1.95"), None);
        assert_eq!(choose("", "1.95.0"), None);
    }
}
