//! The program to boot: an example, a crate, an executable, or a boot image.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use hermit_interface::{boot_image, image};
use hermit_toolchain::build::{self, BuildOptions};
use hermit_toolchain::package::{Binary, Package};
use hermit_toolchain::target::FloatAbi;
use hermit_toolchain::usage::usage_error;
use hermit_toolchain::workspace;

/// Options of commands that take a program.
#[derive(Debug, Default, clap::Args)]
pub struct Program {
    /// Name of an example, folder of a crate, executable for x86_64-unknown-hermit, or boot image
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

/// File or program that the command line names.
#[derive(Debug)]
pub(crate) enum Found {
    /// An executable or a boot image.
    Image(PathBuf),
    /// A program of a crate, which has to be built.
    Binary(Binary, BuildOptions),
}

impl Found {
    /// Returns the executable or boot image. Builds the executable first if it belongs to a crate; with
    /// `quiet`, cargo prints only errors and warnings.
    pub(crate) fn build(&self, quiet: bool) -> Result<PathBuf> {
        match self {
            Self::Image(file) => Ok(file.clone()),
            Self::Binary(binary, options) => {
                build::binary(binary, &BuildOptions { quiet, ..options.clone() })
            }
        }
    }
}

impl Program {
    /// Finds the program, without building anything.
    ///
    /// # Errors
    ///
    /// Fails if there is no program of this name, or if the crate has several programs and none is chosen.
    pub(crate) fn find(&self) -> Result<Found> {
        let Some(folder) = self.folder()? else { return Ok(Found::Image(self.name.clone())) };
        let package = Package::of(&folder)?.ok_or_else(|| no_package(&folder))?;
        let options = BuildOptions {
            release: self.release,
            features: self.features.clone(),
            quiet: false,
            float: if self.soft_float { FloatAbi::Soft } else { FloatAbi::Hard },
        };
        Ok(Found::Binary(package.binary(self.bin.as_deref())?, options))
    }

    /// Returns the folder of the crate, or `None` if the name is that of an image.
    fn folder(&self) -> Result<Option<PathBuf>> {
        let program = self.name.to_str().and_then(workspace::program);
        if program.is_some() {
            return Ok(program);
        }
        if self.name.is_file() {
            return Ok(None);
        }
        if self.name.join("Cargo.toml").is_file() {
            return Ok(Some(self.name.clone()));
        }
        Err(self.not_a_program()?)
    }

    /// Returns an error that explains why there is no program of this name.
    fn not_a_program(&self) -> Result<Error> {
        let name = self.name.display();
        if self.name.is_dir() {
            return Ok(usage_error(format!("{name} is no crate: there is no Cargo.toml in it")));
        }
        let examples = workspace::examples()?.join(", ");
        Ok(usage_error(format!(
            "`{name}` is neither an example nor a crate's folder nor a file; the examples are {examples}"
        )))
    }
}

/// Returns the error for a folder that has a workspace but no package: cargo would build all members.
fn no_package(folder: &Path) -> Error {
    usage_error(format!(
        "{} is a workspace without a program of its own: give the folder of one of its crates, or the name of an example, such as \
         `hello_world`",
        folder.display()
    ))
}

/// A file that can be booted.
#[derive(Debug)]
pub struct BootFile {
    /// The executable for the target.
    pub executable: Vec<u8>,
    /// True if the file is a boot image, which contains a loader as well as the executable.
    pub is_boot_image: bool,
}

/// Reads an executable or a boot image, and rejects one whose executable the loader would not boot.
pub fn check(file: &Path) -> Result<BootFile> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let contained = boot_image::parse(&bytes).map(|image| image.executable.to_vec());
    let is_boot_image = contained.is_some();
    let executable = contained.unwrap_or(bytes);
    match image::check(&executable) {
        Ok(_) => Ok(BootFile { executable, is_boot_image }),
        Err(error) => bail!("{}: {error}", file.display()),
    }
}

/// Returns the `argv[0]` of a program: the name of its file.
pub fn name_of(file: &Path) -> OsString {
    file.file_name().unwrap_or(file.as_os_str()).to_owned()
}
