//! A Linux guest to compare with: Debian's kernel for virtual machines, with the program as its only process.
//!
//! The kernel is downloaded and unpacked, never installed. The program is linked statically, so that it needs no
//! other file. It ends, Linux panics because its first process did, and restarts at once, which ends QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::COUNT_INSTRUCTIONS;
use super::core::{LIMIT, MEMORY};
use super::cpio::{self, Kind};
use crate::qemu::{End, Guest, Input};
use crate::{build, process, workspace};

/// The package that depends on the current kernel for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The numbers of the device that is the console.
const CONSOLE: Kind<'_> = Kind::Device(5, 1);

/// What Linux is told: where to print, to print little, to restart at once when it panics, by the way that every
/// machine has.
const OPTIONS: &str = "console=ttyS0 quiet panic=-1 reboot=t";

/// A Linux guest whose first process is `core_bench`.
#[derive(Debug)]
pub(super) struct Linux {
    kernel: PathBuf,
    file_system: PathBuf,
}

impl Linux {
    /// Fetches the kernel if need be and builds the program.
    pub(super) fn prepare() -> Result<Self> {
        let folder = workspace::target_dir().join("setup").join("linux");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let kernel = match find_kernel(&folder)? {
            Some(kernel) => kernel,
            None => fetch_kernel(&folder).context("cannot fetch Debian's Linux kernel")?,
        };
        let program = folder.join("core_bench");
        build::strip(&build_program()?, &program)?;
        let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let entries = [("dev", Kind::Folder), ("dev/console", CONSOLE), ("init", Kind::Program(&program))];
        let archive = cpio::archive(&entries).context("the program is too large")?;
        let file_system = folder.join("initramfs");
        fs::write(&file_system, archive)
            .with_context(|| format!("cannot write {}", file_system.display()))?;
        eprintln!("the Linux guest is {}", kernel.display());
        Ok(Self { kernel, file_system })
    }

    /// Boots, and gives what the program printed that was told `arguments`, and what Linux printed.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut more = COUNT_INSTRUCTIONS.map(str::to_owned).to_vec();
        // In place of the command line that our kernel would get: QEMU goes by the last one.
        more.extend(["-append".to_owned(), format!("{OPTIONS} -- {}", arguments.join(" "))]);
        let guest = Guest {
            memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
            timeout: Some(LIMIT),
            more,
            ..Guest::new(self.kernel.clone(), Some(self.file_system.clone()), "init".into())
        };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        let text = String::from_utf8_lossy(&output);
        ensure!(end == End::NoStatus, "the Linux guest ended with {end:?}:\n{text}");
        Ok(output)
    }
}

/// A kernel in the folder.
fn find_kernel(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let is_kernel = |name: &str| name.starts_with("vmlinuz-");
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_kernel)))
}

/// Downloads the package of the current kernel and takes the kernel out of it.
fn fetch_kernel(folder: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() || process::find("dpkg-deb").is_none() {
        bail!("this machine has no apt-get or no dpkg-deb");
    }
    let dependencies = process::output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let package = image_package(&dependencies).with_context(|| {
        format!("{PACKAGE} is unknown to apt; on Debian, `apt-get update` gets its lists")
    })?;
    eprintln!("downloading {package}");
    let work = tempfile::tempdir_in(folder).context("cannot make a temporary folder")?;
    let mut apt = Command::new("apt-get");
    apt.args(["-o", "APT::Sandbox::User=root", "download", "-qq", package]).current_dir(work.path());
    process::run(&mut apt)?;
    let archive = fs::read_dir(work.path())?
        .find_map(|entry| Some(entry.ok()?.path()))
        .context("apt-get downloaded no package")?;
    let unpacked = work.path().join("unpacked");
    process::run(Command::new("dpkg-deb").arg("-x").args([&archive, &unpacked]))?;
    let kernel = find_kernel(&unpacked.join("boot"))?.context("the package has no kernel in it")?;
    let place = folder.join(kernel.file_name().context("the kernel has no name")?);
    fs::rename(&kernel, &place).with_context(|| format!("cannot create {}", place.display()))?;
    Ok(place)
}

/// The package with the kernel itself, among what `apt-cache depends` printed.
fn image_package(dependencies: &str) -> Option<&str> {
    let mut packages = dependencies.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    packages.find(|package| package.starts_with("linux-image-") && package.ends_with("-cloud-amd64"))
}

/// Builds `core_bench` for Linux, linked statically with the system's C library.
fn build_program() -> Result<PathBuf> {
    native_with("core_bench", "-C target-feature=+crt-static")
}

/// Builds an example as an ordinary program of Linux, optimised as the guest's.
pub(super) fn native(name: &str) -> Result<PathBuf> {
    native_with(name, "")
}

fn native_with(name: &str, flags: &str) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", name]);
    cargo.args(["--release", "--target", TARGET]);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", flags);
    let artifacts = build::artifacts(&mut cargo).with_context(|| format!("cannot build {name} for Linux"))?;
    let executable = artifacts.into_iter().find_map(|artifact| artifact.executable);
    executable.with_context(|| format!("cargo built {name}, but names no executable"))
}

#[cfg(test)]
mod tests {
    use super::image_package;

    #[test]
    fn the_kernel_of_today_is_found() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(image_package(text), Some("linux-image-6.1.0-56-cloud-amd64"));
        let newer = "x\n  Depends: y\n |Depends: z\n  Depends: linux-image-6.12.1+deb13-cloud-amd64\n";
        assert_eq!(image_package(newer), Some("linux-image-6.12.1+deb13-cloud-amd64"));
        assert_eq!(image_package("N: Unable to locate package\n"), None);
    }
}
