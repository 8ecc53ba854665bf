//! What is to be booted: an example, a crate, or an image that is there already.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hermit_interface::image;

use crate::build::{self, BuildOptions};
use crate::target::FloatAbi;
use crate::workspace;

/// Options of every command that takes a program.
#[derive(Debug, Default, clap::Args)]
pub struct Program {
    /// Name of an example, folder of a crate, or an image
    #[arg(value_name = "EXAMPLE_OR_PATH")]
    pub name: PathBuf,
    /// Build optimised
    #[arg(long)]
    pub release: bool,
    /// Features of the crate to switch on
    #[arg(long, value_name = "FEATURES")]
    pub features: Vec<String>,
    /// The program, if the crate has several
    #[arg(long, value_name = "NAME")]
    pub bin: Option<String>,
    /// Build without floating-point instructions, for a KVM that merely emulates processors
    #[arg(long)]
    pub soft_float: bool,
}

impl Program {
    /// The image's file, built if it comes from a crate.
    pub fn build(&self) -> Result<PathBuf> {
        match self.folder()? {
            Some(folder) => {
                let options = BuildOptions {
                    release: self.release,
                    features: self.features.clone(),
                    bin: self.bin.clone(),
                    float: if self.soft_float { FloatAbi::Soft } else { FloatAbi::Hard },
                };
                build::guest_program(&folder, &options)
            }
            None => Ok(self.name.clone()),
        }
    }

    /// The crate's folder; `None` if an image is meant.
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

/// Refuses a file that is no image that the loader would boot.
pub fn check(file: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match image::check(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => bail!("{}: {error}", file.display()),
    }
}

/// The name by which a program is called: that of its file.
pub fn name_of(file: &Path) -> OsString {
    file.file_name().unwrap_or(file.as_os_str()).to_owned()
}
