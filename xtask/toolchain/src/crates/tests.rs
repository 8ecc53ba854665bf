//! Tests of the selection of patched crates, with cargo's metadata of crates outside of this workspace.

use std::fs;
use std::path::Path;

use super::catalog::{Catalog, CratePatch};
use super::configuration::Configuration;
use super::graph::{Graph, Purpose};
use super::{Selection, source};
use crate::patches::{Header, Series};
use crate::{process, workspace};

/// Makes a crate outside of this workspace, with its lock file. The crate's tests depend on socket2; on
/// Windows, the crate depends on filetime.
fn crate_with_socket2(folder: &Path) {
    let manifest = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
                    [dev-dependencies]\nsocket2 = \"0.6\"\n\
                    [target.'cfg(windows)'.dependencies]\nfiletime = \"0.2\"\n[workspace]\n";
    // This call makes cargo download the crate's dependencies. Later calls do not need the network.
    Graph::of(workspace::root(), &[], Purpose::Programs).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("lib.rs"), "").unwrap();
    fs::copy(workspace::root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::create_dir(folder.join(".cargo")).unwrap();
    configure(folder, "");
}

/// Writes the crate's configuration: without the network, and with the line `include` that `patch-config`
/// prints.
fn configure(folder: &Path, include: &str) {
    fs::write(folder.join(".cargo/config.toml"), format!("{include}\n[net]\noffline = true\n")).unwrap();
}

/// Returns the patched crates of the crate in `folder`, and their configuration.
fn patched(folder: &Path, catalog: &Catalog) -> (Selection, Configuration) {
    let graph = Graph::of(folder, &[], Purpose::ProgramsAndTests).unwrap();
    let selection = Selection::new(&graph, catalog, |_| true).unwrap();
    let configuration = Configuration::of_workspace(&graph.root, &selection.copies).unwrap();
    (selection, configuration)
}

#[test]
fn patches_are_kept_when_they_are_already_configured() {
    let dir = tempfile::tempdir().unwrap();
    crate_with_socket2(dir.path());
    let catalog = Catalog::read().unwrap();
    let (first, configuration) = patched(dir.path(), &catalog);
    let names: Vec<_> = first.copies.iter().map(|(package, _)| package.name.as_str()).collect();
    assert_eq!(names, ["libc", "socket2"]);

    configure(dir.path(), &configuration.include());
    let is_local = |name: &str| {
        let lock = fs::read_to_string(dir.path().join("Cargo.lock")).unwrap();
        let entry = lock.split("\n\n").find(|entry| entry.contains(&format!("name = \"{name}\""))).unwrap();
        !entry.contains("source = ")
    };
    assert!(!is_local("socket2") && !is_local("libc"));
    let (second, _) = patched(dir.path(), &catalog);
    assert!(is_local("socket2") && is_local("libc"));
    let copies =
        |selection: &Selection| selection.copies.iter().map(|(_, folder)| folder.clone()).collect::<Vec<_>>();
    assert_eq!(copies(&second), copies(&first));

    // `cargo clean` in this repository removes this folder, too.
    fs::remove_dir_all(configuration.folder()).unwrap();
    let (third, _) = patched(dir.path(), &catalog);
    assert!(!is_local("socket2") && !is_local("libc"));
    assert_eq!(copies(&third), copies(&first));
    fs::remove_dir_all(configuration.folder()).unwrap();
}

#[test]
fn optional_dependency_is_patched() {
    let dir = tempfile::tempdir().unwrap();
    crate_with_socket2(dir.path());
    let manifest = dir.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let optional = text.replace(
        "[dev-dependencies]\nsocket2 = \"0.6\"",
        "[dependencies]\nsocket2 = { version = \"0.6\", optional = true }",
    );
    assert_ne!(optional, text);
    fs::write(&manifest, optional).unwrap();
    let (selection, configuration) = patched(dir.path(), &Catalog::read().unwrap());
    let names: Vec<_> = selection.copies.iter().map(|(package, _)| package.name.as_str()).collect();
    assert_eq!(names, ["libc", "socket2"]);
    fs::remove_dir_all(configuration.folder()).unwrap();
}

/// Makes a series in a directory. Its patch has these fields, and inserts a line after a line of Cargo.toml.
fn patch(directory: &Path, fields: &str, line: &str) -> CratePatch {
    let text = format!(
        "Subject\n\nWhy.\n\nUpstream: no\nDrop when: never\n{fields}\n\n--- a/Cargo.toml\n+++ b/Cargo.toml\n\
         @@ -1 +1,2 @@\n {line}\n+# patched\n"
    );
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("a.patch"), &text).unwrap();
    let series = Series::at(directory.to_str().unwrap().to_owned());
    CratePatch::new(series, &Header::parse(&text).unwrap()).unwrap()
}

/// Returns the selection for a crate that depends on socket2. The patch of socket2 requires a patch of libc,
/// which is for versions from `since` on and fits no sources.
fn selection_with_required(since: &str) -> Selection {
    let dir = tempfile::tempdir().unwrap();
    crate_with_socket2(dir.path());
    let graph = Graph::of(dir.path(), &[], Purpose::ProgramsAndTests).unwrap();
    let fields = "Since: socket2 0.6\nBelow: 0.7\nRequires: libc";
    let socket2 = patch(&dir.path().join("socket2"), fields, "[package]");
    let fields = format!("Since: libc {since}\nBelow: 0.3\nOnly if required: yes");
    let libc = patch(&dir.path().join("libc"), &fields, "no such text");
    let catalog = Catalog::new(vec![("socket2".to_owned(), socket2.clone()), ("libc".to_owned(), libc)]);
    let selection = Selection::new(&graph, &catalog, |_| true).unwrap();
    let copy = source::folder_of_copy(&socket2, graph.named("socket2").next().unwrap()).unwrap();
    // Another test that runs at the same time may have removed it.
    let _ = fs::remove_dir_all(copy);
    selection
}

#[test]
fn package_is_unpatched_if_the_patch_of_a_required_one_does_not_fit() {
    let selection = selection_with_required("0.2");
    assert!(selection.copies.is_empty(), "{selection:?}");
    let [mismatch] = &*selection.warnings else { panic!("{selection:?}") };
    assert!(mismatch.contains("libc/a.patch does not fit these sources"), "{mismatch}");
}

#[test]
fn package_is_unpatched_if_the_required_one_is_older_than_all_patches() {
    let selection = selection_with_required("0.2.9999");
    assert!(selection.copies.is_empty(), "{selection:?}");
    let reason = selection.warnings.iter().find(|warning| warning.contains("socket2 0.6")).unwrap();
    assert!(
        reason.contains("is used unpatched") && reason.contains("known: 0.2.9999 to below 0.3.0"),
        "{reason}"
    );
}

#[test]
fn user_is_warned_of_a_version_without_patch_that_compiles() {
    let dir = tempfile::tempdir().unwrap();
    crate_with_socket2(dir.path());
    let graph = Graph::of(dir.path(), &[], Purpose::ProgramsAndTests).unwrap();
    let select = |field: &str| {
        let fields = format!("Since: socket2 0.4\nBelow: 0.5{field}");
        let patch = patch(&dir.path().join("socket2"), &fields, "[package]");
        let selection = Selection::new(&graph, &Catalog::new(vec![("socket2".to_owned(), patch)]), |_| true);
        let Selection { notes, warnings, .. } = selection.unwrap();
        (notes.len(), warnings.join("; "))
    };
    assert_eq!(select(""), (1, String::new()));
    let (notes, warning) = select("\nCompiles unpatched: yes");
    assert!(notes == 0 && warning.contains("has no patch; known: 0.4.0 to below 0.5.0"), "{warning}");
}

#[test]
fn required_crate_is_found_outside_of_the_graph_without_network() {
    let dir = tempfile::tempdir().unwrap();
    crate_with_socket2(dir.path());
    let graph = Graph::of(dir.path(), &[], Purpose::ProgramsAndTests).unwrap();
    assert!(graph.named("filetime").next().is_none());
    let package = source::find(&graph, "filetime").unwrap().unwrap();
    assert!(package.folder.join("Cargo.toml").is_file(), "{package:?}");
    assert_eq!(source::find(&graph, "no-such-crate").unwrap(), None);
}

#[test]
fn copy_of_a_crate_that_denies_warnings_compiles_without_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
    fs::create_dir_all(original.join("src")).unwrap();
    let manifest = "[package]\nname = \"strict\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lints.rust]\nunused = \"deny\"\n";
    fs::write(original.join("Cargo.toml"), manifest).unwrap();
    let library = "#![deny(missing_docs, warnings)]\n#![cfg_attr(not(windows), deny(unused))]\nmod inner;\nfn unused() {}\n";
    fs::write(original.join("src/lib.rs"), library).unwrap();
    fs::write(original.join("src/inner.rs"), "#![deny(\n    dead_code,\n)]\nfn unused() {}\n").unwrap();
    let changes = dir.path().join("changes");
    fs::create_dir(&changes).unwrap();
    source::copy(&original, &changes, &copy).unwrap();
    let mut cargo = process::cargo();
    cargo.args(["check", "--offline", "--manifest-path"]).arg(copy.join("Cargo.toml"));
    let output = cargo.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !messages.contains("warning"), "{messages}");
}
