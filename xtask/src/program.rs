//! The program to boot: an example, a crate, or an image.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hermit_interface::image;

use crate::build::{self, BuildOptions};
use crate::target::FloatAbi;
use crate::workspace;

/// Options of commands that take a program.
#[derive(Debug, Default, clap::Args)]
pub struct Program {
    /// Name of an example, folder of a crate, or an image
    #[arg(value_name = "EXAMPLE_OR_PATH")]
    pub name: PathBuf,
    /// Build with the release profile
    #[arg(long)]
    pub release: bool,
    /// Features of the crate to enable
    #[arg(long, value_name = "FEATURES")]
    pub features: Vec<String>,
    /// The binary, if the crate has several
    #[arg(long, value_name = "NAME")]
    pub bin: Option<String>,
    /// Build without floating-point instructions, for a KVM that emulates in software
    #[arg(long)]
    pub soft_float: bool,
}

impl Program {
    /// Returns the file of the image, built first if a crate is named; `quiet` silences cargo but for errors and warnings.
    pub fn build(&self, quiet: bool) -> Result<PathBuf> {
        match self.folder()? {
            Some(folder) => {
                let options = BuildOptions {
                    release: self.release,
                    features: self.features.clone(),
                    bin: self.bin.clone(),
                    quiet,
                    float: if self.soft_float { FloatAbi::Soft } else { FloatAbi::Hard },
                };
                build::guest_program(&folder, &options)
            }
            None => Ok(self.name.clone()),
        }
    }

    /// Returns the folder of the crate; `None` if an image is named.
    fn folder(&self) -> Result<Option<PathBuf>> {
        let example = self.name.to_str().and_then(workspace::example);
        if let Some(folder) = example {
            return Ok(Some(folder));
        }
        if self.name.is_file() {
            return Ok(None);
        }
        if self.name.join("Cargo.toml").is_file() {
            let folder = self.name.canonicalize();
            return folder.map(Some).with_context(|| format!("cannot find {}", self.name.display()));
        }
        let name = self.name.display();
        if self.name.is_dir() {
            bail!("{name} is no crate: there is no Cargo.toml in it");
        }
        bail!(
            "`{name}` is neither an example nor a crate's folder nor a file; the examples are {}",
            workspace::examples()?.join(", ")
        )
    }
}

/// Reads an image and rejects one that the loader would not boot.
pub fn check(file: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match image::check(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => bail!("{}: {error}", file.display()),
    }
}

/// Returns the `argv[0]` of a program: the name of its file.
pub fn name_of(file: &Path) -> OsString {
    file.file_name().unwrap_or(file.as_os_str()).to_owned()
}
