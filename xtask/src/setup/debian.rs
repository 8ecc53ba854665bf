//! Rust's sources from Debian, for hosts that reach a Debian mirror but not rustup's server.
//!
//! The package is downloaded and unpacked, not installed: an installed one would conflict with rustup. apt writes only to a
//! temporary folder; its sources list names the mirror that the host already uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// The suite that carries current versions of Rust for Debian stable.
const SUITE: &str = "trixie-backports";

/// The suite that carries the sources of libraries.
const STABLE_SUITE: &str = "trixie";

const NO_MIRROR: &str = "apt's configuration names no Debian mirror";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads the sources of the given release into `work` and returns the path of their `library` folder.
pub(crate) fn unpack_sources(release: &str, work: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() || process::find("dpkg-deb").is_none() {
        bail!("Debian's package cannot be downloaded: this host has no apt-get or no dpkg-deb");
    }
    let mirror = mirror(&configuration()).context(NO_MIRROR)?;
    let apt = Apt::new(work, "deb", &mirror, SUITE)?;
    eprintln!("      asking {mirror} for {SUITE}");
    process::run(&mut apt.command("apt-get", &["update", "-qq"]))?;
    let versions = process::output(&mut apt.command("apt-cache", &["madison", "rust-src"]))?;
    let version = choose(&versions, release)
        .with_context(|| format!("{mirror} {SUITE} has no package rust-src of version {release}"))?;
    eprintln!("      downloading rust-src {version}");
    process::run(&mut apt.command("apt-get", &["download", "-qq", &format!("rust-src={version}")]))?;
    let package = fs::read_dir(work)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded no package")?;
    let unpacked = work.join("unpacked");
    process::run(Command::new("dpkg-deb").arg("-x").args([&package, &unpacked]))?;
    Ok(unpacked.join(format!("usr/src/rustc-{release}/library")))
}

/// Downloads the sources of a package into `work`, and returns the path of this file of them.
pub(super) fn download_sources(package: &str, file: &str, work: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() {
        bail!("the sources of {package} cannot be downloaded: this host has no apt-get");
    }
    let mirror = mirror(&configuration()).context(NO_MIRROR)?;
    let apt = Apt::new(work, "deb-src", &mirror, STABLE_SUITE)?;
    eprintln!("      asking {mirror} for the sources of {package}");
    process::run(&mut apt.command("apt-get", &["update", "-qq"]))?;
    process::run(&mut apt.command("apt-get", &["source", "--download-only", "-qq", package]))?;
    let path = work.join(file);
    ensure!(path.is_file(), "{mirror} {STABLE_SUITE} has no {file}");
    Ok(path)
}

/// apt with lists and caches in a folder of its own.
struct Apt<'a> {
    work: &'a Path,
}

impl<'a> Apt<'a> {
    fn new(work: &'a Path, kind: &str, mirror: &str, suite: &str) -> Result<Self> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(folder)).context("cannot create folders for apt")?;
        }
        let signed =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        fs::write(work.join("sources.list"), format!("{kind} {signed}{mirror} {suite} main\n"))
            .context("cannot write a sources list for apt")?;
        Ok(Self { work })
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        let settings = [
            ("Dir::Etc::sourcelist", self.work.join("sources.list").display().to_string()),
            ("Dir::Etc::sourceparts", "-".to_owned()),
            ("Dir::State::lists", self.work.join("lists").display().to_string()),
            ("Dir::Cache", self.work.join("cache").display().to_string()),
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::Retries", "2".to_owned()),
            ("Acquire::http::Timeout", "20".to_owned()),
        ];
        for (name, value) in settings {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        command.args(args).current_dir(self.work);
        command
    }
}

/// Returns the contents of all apt sources of the host.
fn configuration() -> String {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten();
    let parts = parts.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
        path.extension().is_some_and(|extension| extension == "list" || extension == "sources")
    });
    let mut paths: Vec<_> = parts.collect();
    paths.sort();
    paths.insert(0, PathBuf::from("/etc/apt/sources.list"));
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect::<Vec<_>>().join("\n")
}

/// Finds the first mirror of the Debian archive (not of its security updates) in apt sources of either format.
fn mirror(configuration: &str) -> Option<String> {
    let lines = configuration.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    words.find(|word| is_mirror(word)).map(|word| word.trim_end_matches('/').to_owned())
}

fn is_mirror(word: &str) -> bool {
    let scheme = ["http://", "https://", "mirror+http://", "mirror+https://", "file:/"];
    scheme.iter().any(|scheme| word.starts_with(scheme)) && word.trim_end_matches('/').ends_with("/debian")
}

/// Finds the version that packages the given release in the table of `apt-cache madison`.
fn choose<'a>(versions: &'a str, release: &str) -> Option<&'a str> {
    let mut columns = versions.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    columns.find(|version| {
        version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['+', '-', '~']) || rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::{choose, mirror};

    #[test]
    fn mirror_is_found_in_both_formats() {
        let new = "Types: deb\n# http://snapshot.debian.org/archive/debian/2025\n\
            URIs: http://deb.debian.org/debian\nSuites: bookworm\n\n\
            URIs: http://deb.debian.org/debian-security\n";
        assert_eq!(mirror(new).as_deref(), Some("http://deb.debian.org/debian"));
        let old = "# deb http://no.example/debian x main\n\
            deb http://security.example/debian-security x main\n\
            deb [arch=amd64] https://mirror.example/pub/debian/ x main\n";
        assert_eq!(mirror(old).as_deref(), Some("https://mirror.example/pub/debian"));
        assert_eq!(mirror("deb http://archive.ubuntu.com/ubuntu noble main\n"), None);
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
