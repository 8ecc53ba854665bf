//! Builds with cargo, and the files that they produce.
//!
//! Where cargo puts an executable depends on profile, target and configuration. So the tool does not
//! construct the path: it runs cargo with `--message-format=json-render-diagnostics`, and reads the messages
//! on cargo's standard output. A message `compiler-artifact` names the output files of a library or program,
//! even if cargo found them up to date. Diagnostics are text on standard error, as usual. The module also
//! builds the tools that boot guests: the loader, uhyve and `xtask` itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::setup::progress::Task;
use crate::target::{BARE_TARGET, GUEST_TARGET, UHYVE_TARGET};
use crate::{process, workspace};

/// Cargo profile of uhyve and the build tool. They have the same profile so that they share compiled
/// dependencies.
pub const TOOLS_PROFILE: &str = "tools";

/// The option that makes cargo report artifacts on standard output, and diagnostics as text.
const MESSAGE_FORMAT: &str = "--message-format=json-render-diagnostics";

/// A library or program that cargo built or found up to date.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    /// Name of the library or binary.
    pub name: String,
    /// Output files.
    pub files: Vec<PathBuf>,
    /// The executable file, if the artifact is a program.
    pub executable: Option<PathBuf>,
    /// Folder of the package.
    pub folder: PathBuf,
    /// The program runs tests.
    pub is_test: bool,
}

/// Runs `cargo build` and returns the artifacts. Cargo's diagnostics go to standard error.
pub fn artifacts(cargo: &mut Command) -> Result<Vec<Artifact>> {
    Ok(parse_messages(&process::output(cargo.arg(MESSAGE_FORMAT))?))
}

/// Runs `cargo build` as [`artifacts`] does, and shows the progress of the build.
pub(crate) fn artifacts_with_progress(cargo: &mut Command, task: Task<'_>) -> Result<Vec<Artifact>> {
    Ok(parse_messages(&task.run(cargo.arg(MESSAGE_FORMAT))?))
}

/// Returns the artifacts that cargo's messages report. Prints the lines between them: procedural macros and
/// compilers write to the same stream.
pub fn parse_messages(output: &str) -> Vec<Artifact> {
    let (messages, foreign) = split_messages(output);
    foreign.iter().for_each(|line| eprintln!("{line}"));
    messages.iter().filter_map(artifact).collect()
}

/// Separates cargo's JSON messages from other lines.
fn split_messages(output: &str) -> (Vec<Value>, Vec<&str>) {
    let (mut messages, mut foreign) = (Vec::new(), Vec::new());
    for line in output.lines() {
        match message(line) {
            Some(message) => messages.push(message),
            None => foreign.push(line),
        }
    }
    (messages, foreign)
}

/// Parses one of cargo's JSON messages, which have a field `reason`. Returns `None` for any other line.
pub(crate) fn message(line: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(line).ok()?;
    message["reason"].is_string().then_some(message)
}

/// Returns the artifact that a message reports. Returns `None` for messages about other things.
fn artifact(message: &Value) -> Option<Artifact> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    Some(Artifact {
        name: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
        files: message["filenames"].as_array().into_iter().flatten().filter_map(path).collect(),
        executable: path(&message["executable"]),
        folder: path(&message["manifest_path"])
            .and_then(|manifest| Some(manifest.parent()?.to_owned()))
            .unwrap_or_default(),
        is_test: message["profile"]["test"] == true,
    })
}

/// Builds the loader, shows the progress, and returns the loader's file. The call is quick if the loader is
/// up to date.
pub(crate) fn build_loader(task: Task<'_>) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--package", "hermit-loader"]);
    cargo.args(["--profile", "kernel", "--target", BARE_TARGET]);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    executable(artifacts_with_progress(&mut cargo, task), "the loader")
}

/// Builds uhyve with the profile of its releases, shows the progress, and returns uhyve's file. The call is
/// quick if uhyve is up to date.
///
/// uhyve is linked statically if possible: it starts faster without dynamic linking. If the toolchain has std
/// for musl (`has_library`), uhyve is linked with musl. Otherwise it is linked with the host's C library,
/// statically if the host has the archive of that library.
pub(crate) fn build_uhyve(task: Task<'_>, has_library: bool) -> Result<PathBuf> {
    let mut cargo = tool_cargo("rustc", "uhyve");
    cargo.args(["--bin", "uhyve", MESSAGE_FORMAT]);
    if has_library {
        cargo.args(["--target", UHYVE_TARGET]);
    } else if has_static_c_library() {
        cargo.args(["--", "-Ctarget-feature=+crt-static"]);
    }
    executable(task.run(&mut cargo).map(|messages| parse_messages(&messages)), "uhyve")
}

/// Returns true if the host's linker finds the static archive of the C library. On some distributions, the
/// archive is in a separate package.
fn has_static_c_library() -> bool {
    let found = Command::new("cc").args(["-print-file-name=libc.a"]).output();
    // The compiler prints an absolute path if it finds the file, and otherwise only the name.
    found.is_ok_and(|found| Path::new(OsStr::from_bytes(found.stdout.trim_ascii())).is_absolute())
}

/// Builds the program `xtask`, which is also the runner, and returns its file. The call is quick if the
/// program is up to date.
pub fn build_xtask() -> Result<PathBuf> {
    executable(artifacts(tool_cargo("build", "xtask").arg("--quiet")), "xtask")
}

fn tool_cargo(command: &str, package: &str) -> Command {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args([command, "--package", package, "--profile", TOOLS_PROFILE]);
    cargo
}

/// Builds the kernel as a static library and returns its file. The call is quick if `hermit-sys` has built
/// the kernel in this workspace.
pub fn build_kernel() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", "hermit-kernel"]);
    cargo.args(["--profile", "kernel", "--target", BARE_TARGET, "--target-dir"]);
    cargo.arg(workspace::target_dir().join("hermit-sys")).env("CARGO_ENCODED_RUSTFLAGS", "");
    let artifacts = artifacts(&mut cargo).context("cannot build the kernel")?;
    let mut files = artifacts.into_iter().flat_map(|artifact| artifact.files);
    let library = files.find(|file| file.extension().is_some_and(|extension| extension == "a"));
    library.context("cargo built the kernel, but names no library")
}

/// Makes `hermit-sys` build the objects of the kernel and the network stack, and returns their folder. The
/// call is quick if they are up to date.
pub(crate) fn build_objects() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--release", "--package", "hermit-sys"]);
    cargo.args(["--target", GUEST_TARGET, MESSAGE_FORMAT]);
    let messages = process::output(&mut cargo).context("cannot build the kernel")?;
    let folder = messages.lines().find_map(script_output);
    folder.context("cargo built hermit-sys, but names no folder of its build script")
}

/// Returns the output folder of the build script of `hermit-sys`, if one of cargo's JSON messages reports it.
fn script_output(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_ours = message["package_id"].as_str().is_some_and(|package| package.contains("/hermit-sys#"));
    let folder =
        (message["reason"] == "build-script-executed" && is_ours).then(|| message["out_dir"].as_str());
    folder.flatten().map(PathBuf::from)
}

/// Returns the executable of a build.
fn executable(artifacts: Result<Vec<Artifact>>, name: &str) -> Result<PathBuf> {
    let artifacts = artifacts.with_context(|| format!("cannot build {name}"))?;
    let executable = artifacts.into_iter().find_map(|artifact| artifact.executable);
    executable.with_context(|| format!("cargo built {name}, but names no executable"))
}

#[cfg(test)]
mod tests {
    use super::{Artifact, artifact, script_output, split_messages};

    #[test]
    fn output_of_the_build_script_is_that_of_hermit_sys() {
        let message = |reason: &str, package: &str| {
            let json = serde_json::json!({ "reason": reason, "package_id": package, "out_dir": "/o" });
            script_output(&json.to_string())
        };
        let package = "path+file:///w/hermit-sys#0.1.0";
        assert_eq!(message("build-script-executed", package), Some("/o".into()));
        assert_eq!(message("compiler-artifact", package), None);
        assert_eq!(message("build-script-executed", "registry+x#libc@0.2.0"), None);
    }

    #[test]
    fn artifacts_are_read_between_lines_of_others() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},
            "filenames":["/t/x"],"executable":"/t/x","manifest_path":"/s/Cargo.toml",
            "profile":{"test":true},"fresh":true}"#
            .replace('\n', "");
        let expected = Artifact {
            name: "x".into(),
            files: vec!["/t/x".into()],
            executable: Some("/t/x".into()),
            folder: "/s".into(),
            is_test: true,
        };
        let others = ["{ of a macro", "{\"a\":1}", "[1]", "text"];
        let finished = r#"{"reason":"build-finished","success":true}"#;
        let output = [others[0], &line, others[1], others[2], finished, others[3]].join("\n");
        let (messages, foreign) = split_messages(&output);
        assert_eq!(messages.iter().filter_map(artifact).collect::<Vec<_>>(), [expected]);
        assert_eq!(foreign, others);
    }
}
