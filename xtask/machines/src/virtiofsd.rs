//! virtiofsd, which serves a folder of the host to a guest in QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hermit_interface::memory_size::MemorySize;
use hermit_options::mount::{CachePolicy, MountConfig};
use hermit_toolchain::process::dies_with_parent;
use tempfile::TempDir;

/// Path of virtiofsd, as Debian's package of QEMU installs it.
pub const PROGRAM: &str = "/usr/lib/qemu/virtiofsd";

/// Interval at which the start polls until virtiofsd listens.
const INTERVAL: Duration = Duration::from_millis(5);

/// Time limit for virtiofsd to listen.
const MAX_START: Duration = Duration::from_secs(60);

/// A running virtiofsd. The process exits when QEMU exits. It is killed when this value is dropped or this
/// process ends.
#[derive(Debug)]
pub struct Virtiofsd {
    process: Child,
    folder: TempDir,
}

impl Virtiofsd {
    /// Starts virtiofsd for a folder, and waits until it listens.
    ///
    /// # Errors
    ///
    /// Fails if the folder does not exist, or if virtiofsd cannot be started, for example because the user is
    /// not root.
    pub fn start(mount: &MountConfig) -> Result<Self> {
        mount.check()?;
        if !mount.limits.is_unlimited() {
            bail!("virtiofsd has no limits: --mount with bps= or iops= needs --platform process or kvm");
        }
        if !Path::new(PROGRAM).exists() {
            bail!("--mount in QEMU needs {PROGRAM} of QEMU 7.2 in Debian: use --platform process");
        }
        let source = mount.host.canonicalize().context("cannot find the folder")?.display().to_string();
        if source.contains(',') {
            bail!("virtiofsd serves no folder with a comma in its path: use --platform process");
        }
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let log = fs::File::create(folder.path().join("log")).context("cannot make a log")?;
        let mut command = Command::new(PROGRAM);
        command
            .arg(format!("--socket-path={}", socket(folder.path()).display()))
            .arg("-o")
            .arg(format!("source={source},cache={}", cache(mount.cache)));
        let process = dies_with_parent(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start virtiofsd")?;
        let mut server = Self { process, folder };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let start = Instant::now();
        while !socket(self.folder.path()).exists() {
            if self.process.try_wait().context("cannot wait for virtiofsd")?.is_some() {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                bail!("virtiofsd fails, which needs to be run as root: {}", log.trim_end());
            }
            if start.elapsed() > MAX_START {
                bail!("virtiofsd does not listen after {MAX_START:?}");
            }
            thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Returns true if virtiofsd has ended. The guest's requests then get no replies.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns QEMU's options for the device with this tag.
    pub fn qemu_options(&self, tag: &str) -> [String; 4] {
        [
            "-chardev".to_owned(),
            format!("socket,id={tag},path={}", socket(self.folder.path()).display()),
            "-device".to_owned(),
            format!("vhost-user-fs-pci,chardev={tag},tag={tag}"),
        ]
    }
}

impl Drop for Virtiofsd {
    fn drop(&mut self) {
        // Both calls may fail, because virtiofsd may have ended with QEMU.
        let _: std::io::Result<()> = self.process.kill();
        let _: std::io::Result<_> = self.process.wait();
    }
}

/// Returns virtiofsd's name for a cache policy.
const fn cache(policy: CachePolicy) -> &'static str {
    match policy {
        CachePolicy::Auto => "auto",
        CachePolicy::Always => "always",
        CachePolicy::Never => "none",
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// Returns QEMU's options for memory that virtiofsd can map.
pub fn memory_options(memory: MemorySize) -> [String; 4] {
    [
        "-object".to_owned(),
        format!("memory-backend-memfd,id=memory,size={memory},share=on"),
        "-machine".to_owned(),
        "memory-backend=memory".to_owned(),
    ]
}
