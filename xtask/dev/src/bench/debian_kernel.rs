//! Debian's Linux kernel for virtual machines, which Linux guests boot. It is downloaded and unpacked, but
//! not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use hermit_toolchain::{process, workspace};

/// Metapackage of the current kernel for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// The modules of virtio-net over PCI. A few of them may be built into the kernel.
const MODULES: [&str; 8] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];

/// Name of the modules' folder.
const MODULES_FOLDER: &str = "modules";

/// A kernel on this host.
#[derive(Debug)]
pub(super) struct LinuxKernel {
    /// File of the kernel image.
    pub(super) image: PathBuf,
    /// Files of its network modules.
    pub(super) modules: Vec<PathBuf>,
}

impl LinuxKernel {
    /// Returns the kernel that an earlier run has downloaded, or else downloads it.
    pub(super) fn get() -> Result<Self> {
        let folder = folder()?;
        let modules = folder.join(MODULES_FOLDER);
        let image = match find(&folder)? {
            Some(image) if modules.is_dir() => image,
            _ => download(&folder, &modules).context("cannot download Debian's Linux kernel")?,
        };
        eprintln!("the Linux guest is {}", image.display());
        Ok(Self { image, modules: sorted(&modules)? })
    }
}

/// Returns the folder of the Linux guest's files, which is created if it does not exist.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("setup").join("linux");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Lists a folder, sorted.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Finds a kernel image in a folder.
fn find(folder: &Path) -> Result<Option<PathBuf>> {
    let is_kernel = |name: &str| name.starts_with("vmlinuz-");
    let mut paths = sorted(folder)?.into_iter();
    Ok(paths.find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_kernel)))
}

/// Downloads the package of the current kernel, and extracts the kernel and its modules.
fn download(folder: &Path, modules: &Path) -> Result<PathBuf> {
    if process::find("apt-get").is_none() || process::find("dpkg-deb").is_none() {
        bail!("this host has no apt-get or no dpkg-deb");
    }
    let dependencies = process::output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let package = image_package(&dependencies).with_context(|| {
        format!("{PACKAGE} is unknown to apt; on Debian, `apt-get update` downloads the package lists")
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
    let kernel = find(&unpacked.join("boot"))?.context("the package has no kernel in it")?;
    extract_modules(&unpacked.join("lib/modules"), work.path(), modules)?;
    if let Some(old) = find(folder)? {
        fs::remove_file(old)?;
    }
    let place = folder.join(kernel.file_name().context("the kernel has no name")?);
    fs::rename(&kernel, &place).with_context(|| format!("cannot create {}", place.display()))?;
    Ok(place)
}

/// Copies [`MODULES`] from an unpacked package to a folder, which then replaces the folder `place`.
fn extract_modules(tree: &Path, work: &Path, place: &Path) -> Result<()> {
    let chosen = work.join(MODULES_FOLDER);
    fs::create_dir(&chosen)?;
    let files = files_below(tree)?;
    for name in MODULES {
        let (plain, packed) = (format!("{name}.ko"), format!("{name}.ko.xz"));
        let target = chosen.join(&plain);
        if let Some(file) = files.iter().find(|file| file.ends_with(&packed)) {
            process::run(Command::new("xz").arg("--decompress").arg(file))?;
            fs::rename(file.with_extension(""), &target)?;
        } else if let Some(file) = files.iter().find(|file| file.ends_with(&plain)) {
            fs::rename(file, &target)?;
        }
    }
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    fs::rename(&chosen, place).with_context(|| format!("cannot create {}", place.display()))
}

/// Lists all files below a folder.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let (inner, plain): (Vec<_>, Vec<_>) = sorted(&folder)?.into_iter().partition(|path| is_folder(path));
        folders.extend(inner);
        files.extend(plain);
    }
    Ok(files)
}

fn is_folder(path: &Path) -> bool {
    path.is_dir() && !path.is_symlink()
}

/// Returns the package of the kernel image, from the output of `apt-cache depends`.
fn image_package(dependencies: &str) -> Option<&str> {
    let mut packages = dependencies.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    packages.find(|package| package.starts_with("linux-image-") && package.ends_with("-cloud-amd64"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{extract_modules, image_package, sorted};

    #[test]
    fn image_package_is_found_among_dependencies() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(image_package(text), Some("linux-image-6.1.0-56-cloud-amd64"));
        let newer = "x\n  Depends: y\n |Depends: z\n  Depends: linux-image-6.12.1+deb13-cloud-amd64\n";
        assert_eq!(image_package(newer), Some("linux-image-6.12.1+deb13-cloud-amd64"));
        assert_eq!(image_package("N: Unable to locate package\n"), None);
    }

    #[test]
    fn extract_modules_searches_all_folders() {
        let work = tempfile::tempdir().unwrap();
        let tree = work.path().join("tree");
        fs::create_dir_all(tree.join("kernel/drivers/net")).unwrap();
        for name in ["virtio_net", "net_failover", "virtio_net_other"] {
            fs::write(tree.join("kernel/drivers/net").join(format!("{name}.ko")), name).unwrap();
        }
        fs::write(tree.join("virtio.ko"), "virtio").unwrap();
        let place = work.path().join("place");
        extract_modules(&tree, work.path(), &place).unwrap();
        let names: Vec<_> =
            sorted(&place).unwrap().iter().map(|file| file.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["net_failover.ko", "virtio.ko", "virtio_net.ko"]);
        assert_eq!(fs::read(place.join("virtio_net.ko")).unwrap(), b"virtio_net");
    }
}
