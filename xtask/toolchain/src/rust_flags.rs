//! Flags of rustc for programs, of two kinds.
//!
//! The first kind makes panics unwind, unless the program's profile has `panic = "abort"`. The target's own
//! default is to abort, and cargo passes no flag for a profile that unwinds. So the configuration of this
//! workspace, and the one that set-up prints for users, have the flag. Cargo puts the flag after the flags of
//! the profile, so the flag would also override a profile that aborts; [`configure`] handles that case.
//!
//! The second kind packs relative relocations (`DT_RELR`): most then take a bit instead of 24 bytes. An image
//! without this flag is larger, but works.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::target::GUEST_TARGET;
use crate::workspace;

/// The flags of rustc for programs and for doc tests, in the syntax of cargo's configuration.
pub(crate) const FLAGS: &str = "rustflags = [\"-Cpanic=unwind\", \"-Clink-arg=--pack-dyn-relocs=relr\"]\n\
    rustdocflags = [\"-Cpanic=unwind\"]";

/// The flags that earlier versions of set-up wrote.
pub(crate) const OLD_FLAGS: &str = "rustflags = [\"-Cpanic=unwind\"]";

/// Flag that makes the linker pack relative relocations.
pub(crate) const PACK_RELOCATIONS: &str = "-Clink-arg=--pack-dyn-relocs=relr";

/// Adds the flags to a build of the crate in `folder`. The flag for panics follows the crate's profile.
pub(crate) fn configure(cargo: &mut Command, folder: &Path) {
    // Cargo will report a folder that does not exist.
    let folder = &folder.canonicalize().unwrap_or_default();
    let root = workspace::root().canonicalize().unwrap_or_default();
    let panic = match may_abort(folder, &root) && profile_aborts(cargo, folder) {
        true => "abort",
        // The configuration of this workspace has the flags.
        false if folder.starts_with(root) => return,
        false => "unwind",
    };
    let flags = format!("target.{GUEST_TARGET}.rustflags=['-Cpanic={panic}','{PACK_RELOCATIONS}']");
    cargo.arg("--config").arg(flags);
}

/// Returns true if a profile of the crate may set `panic = "abort"`: a file that cargo reads contains the
/// word `abort`, or a variable sets it. This check is quicker than a query of cargo.
fn may_abort(folder: &Path, root: &Path) -> bool {
    let says = |file: PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains("abort"));
    // The manifest of this workspace is left out: it has a profile that aborts, but not for programs.
    let manifests = folder.ancestors().filter(|folder| *folder != root);
    let manifests = manifests.map(|folder| folder.join("Cargo.toml"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let folders = folder.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    let configurations = folders.flat_map(|folder| ["config.toml", "config"].map(|file| folder.join(file)));
    let is_profile = |name: &str| name.starts_with("CARGO_PROFILE_") && name.ends_with("_PANIC");
    env::vars_os().any(|(name, value)| name.to_str().is_some_and(is_profile) && value == "abort")
        || manifests.chain(configurations).any(says)
}

/// Returns true if the profile of a build aborts, according to cargo. Returns false if cargo fails: the build
/// will report the same error.
fn profile_aborts(build: &Command, folder: &Path) -> bool {
    let mut cargo = Command::new(build.get_program());
    cargo.args(build.get_args()).args(["--unit-graph", "-Zunstable-options"]).current_dir(folder);
    let output = cargo.env("RUSTC_BOOTSTRAP", "1").stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.is_ok_and(|output| graph_aborts(&output.stdout))
}

/// Returns true if a root unit in cargo's graph of a build has a profile that aborts.
fn graph_aborts(graph: &[u8]) -> bool {
    let Ok(graph) = serde_json::from_slice::<Value>(graph) else { return false };
    let mut roots = graph["roots"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    roots.any(|root| {
        let unit = usize::try_from(root).ok().map(|root| &graph["units"][root]);
        unit.is_some_and(|unit| unit["profile"]["panic"] == "abort")
    })
}

#[cfg(test)]
mod tests {
    use super::{configure, graph_aborts};
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use crate::{process, workspace};

    fn arguments(folder: &Path, options: &[&str]) -> Vec<String> {
        let mut cargo = process::cargo();
        cargo.arg("build").args(options);
        configure(&mut cargo, folder);
        let arguments = cargo.get_args().skip(1 + options.len());
        arguments.map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn profile_of_a_crate_outside_the_workspace_decides() {
        let folder = tempfile::tempdir().unwrap();
        let mut new = Command::new(process::cargo().get_program());
        process::run(new.args(["init", "--quiet", "--name", "program"]).arg(folder.path())).unwrap();
        let flag = |panic: &str| {
            let flags = format!("'-Cpanic={panic}','-Clink-arg=--pack-dyn-relocs=relr'");
            ["--config".to_owned(), format!("target.x86_64-unknown-hermit.rustflags=[{flags}]")]
        };
        assert_eq!(arguments(folder.path(), &[]), flag("unwind"));
        let manifest = folder.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap() + "[profile.release]\npanic = \"abort\"\n";
        fs::write(&manifest, text).unwrap();
        assert_eq!(arguments(folder.path(), &[]), flag("unwind"));
        assert_eq!(arguments(folder.path(), &["--release"]), flag("abort"));
    }

    #[test]
    fn crate_of_the_workspace_has_the_flags_of_its_configuration() {
        assert!(arguments(&workspace::root().join("examples/hello_world"), &["--release"]).is_empty());
        let configuration = fs::read_to_string(workspace::root().join(".cargo/config.toml")).unwrap();
        assert!(configuration.contains(super::FLAGS), "{configuration}");
        assert!(super::FLAGS.contains(super::PACK_RELOCATIONS));
    }

    #[test]
    fn graph_without_an_aborting_root_does_not_abort() {
        let unit = |panic| format!("{{\"profile\":{{\"panic\":\"{panic}\"}}}}");
        let graph = |root| format!("{{\"units\":[{},{}],\"roots\":[{root}]}}", unit("abort"), unit("unwind"));
        assert!(graph_aborts(graph(0).as_bytes()));
        assert!(!graph_aborts(graph(1).as_bytes()));
        assert!(!graph_aborts(graph(2).as_bytes()));
        assert!(!graph_aborts(b"error"));
    }
}
