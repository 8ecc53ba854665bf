//! The test ring `crates`: programs that use crates from crates.io must print the same in guests as on Linux.
//!
//! The programs are in a separate workspace, `kernel/tests/crates`. Each program uses about twenty crates.
//! `crates.toml` there lists the crates, and which of them are patched. A machine runs the test of only one
//! crate. With `long`, crates that are listed as not working are also tested, and clients use servers on the
//! host.

mod servers;
mod unsupported;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::target::GUEST_TARGET;
use hermit_toolchain::{build, cargo, crates, process, setup, workspace};

use self::servers::Server;
use super::images::{self, Images};
use super::platform::{TestGuest, TestPlatform, TestVmm};
use super::report::Report;
use super::schedule::Tests;
use crate::compatibility::{Crates, FOLDER, Group, Unsupported};

/// Name of the test that checks the list of a group.
const LIST: &str = "list of crates";

/// Memory of a machine in MiB.
const MEMORY: u64 = 512;

/// Builds the programs and compares their output. With `only`, runs only tests whose names contain that text,
/// and builds only their programs. The name of a test begins with the name of its group.
pub(super) fn test(report: &mut Report, long: bool, only: Option<&str>) -> Result<()> {
    let list = Crates::read()?;
    let groups: Vec<&Group> = list.groups.iter().filter(|group| has_test(group, only)).collect();
    let unsupported =
        list.unsupported.iter().filter(|krate| long && only.is_none_or(|text| name_of(krate).contains(text)));
    let unsupported: Vec<_> = unsupported.collect();
    let servers: Vec<_> = Server::ALL.into_iter().filter(|server| server.is_selected(long, only)).collect();
    ensure!(
        !groups.is_empty() || !unsupported.is_empty() || !servers.is_empty(),
        "no name of a test contains {:?}",
        only.unwrap_or_default()
    );
    setup::ensure()?;
    setup::install_kernel()?;
    let folder = workspace::root().join(FOLDER);
    let packages: Vec<String> = groups.iter().map(|group| group.package()).collect();
    let of_servers = (!servers.is_empty()).then_some(servers::PACKAGE);
    let packages: Vec<&str> = packages.iter().map(String::as_str).chain(of_servers).collect();
    discard_outdated(&workspace::target_dir().join("crates"), &setup::identities()?)?;
    let [host, guest] = programs(&folder, &packages)?;
    let patched = crates::patched(&folder)?;
    let none = Images::new()?;
    let platform =
        TestPlatform { vmm: TestVmm::Uhyve(Uhyve::check(setup::uhyve()?)?, Engine::Process), images: &none };
    let mut tests = Tests::default();
    for group in &groups {
        let (host, guest) = (program(&host, &group.package())?, program(&guest, &group.package())?);
        let (on_host, patched) = (host.clone(), &patched);
        tests.add(test_name(group, LIST), move || check_list(group, &on_host, patched));
        for name in group.crates.keys() {
            let (host, guest, platform) = (host.clone(), guest.clone(), &platform);
            tests.add(test_name(group, name), move || {
                compare(Command::new(host).arg(name), platform.guest_of(&guest, &[name]))
            });
        }
    }
    for server in servers {
        let (host, guest) = (program(&host, servers::PACKAGE)?, program(&guest, servers::PACKAGE)?);
        let platform = &platform;
        tests.add_unless(server.reason_against(), server.test_name(), move || {
            server.test(platform, &host, &guest)
        });
    }
    for krate in unsupported {
        let platform = &platform;
        tests.add(name_of(krate), move || unsupported::test(platform, krate));
    }
    if let Some(text) = only {
        tests.keep_named(text);
    }
    report.run(tests);
    let count = list.groups.iter().map(|group| group.crates.len()).sum::<usize>();
    println!("{count} crates are listed as working, {} as not working", list.unsupported.len());
    Ok(())
}

/// Returns the program of a package.
fn program(programs: &BTreeMap<String, PathBuf>, package: &str) -> Result<PathBuf> {
    programs.get(package).cloned().with_context(|| format!("cargo did not build {package}"))
}

/// Returns the name of a group's test: that of a crate, or of the list ([`LIST`]).
fn test_name(group: &Group, name: &str) -> String {
    format!("{}: {name}", group.package())
}

/// Returns the name of the test of a crate that does not work.
fn name_of(krate: &Unsupported) -> String {
    format!("{}, which does not work", krate.name)
}

/// Returns true if the name of at least one test of the group contains the text `only`.
fn has_test(group: &Group, only: Option<&str>) -> bool {
    let mut names = group.crates.keys().map(String::as_str).chain([LIST]);
    only.is_none_or(|text| names.any(|name| test_name(group, name).contains(text)))
}

/// Builds these packages for Linux and for guests. Returns the files by package, first those for Linux.
fn programs(folder: &Path, packages: &[&str]) -> Result<[BTreeMap<String, PathBuf>; 2]> {
    if packages.is_empty() {
        return Ok([BTreeMap::new(), BTreeMap::new()]);
    }
    println!("building {} for Linux", packages.join(", "));
    let host = host_programs(folder, packages)?;
    println!("building the same for machines");
    Ok([host, build::packages(folder, packages)?.into_iter().collect()])
}

/// Builds the programs for Linux. Returns the files by package.
fn host_programs(folder: &Path, packages: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = process::cargo();
    cargo.current_dir(folder).args(["build", "--quiet", "--locked"]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    let artifacts = cargo::artifacts(&mut cargo).context("cannot build the programs for Linux")?;
    Ok(artifacts.into_iter().filter_map(|artifact| Some((artifact.name, artifact.executable?))).collect())
}

/// Removes files that were built with another std, and programs that were linked to another kernel. Cargo
/// does not notice that they are out of date.
fn discard_outdated(target: &Path, [installation, kernel]: &[String; 2]) -> Result<()> {
    let record = target.join("installed");
    let text = format!("{installation}\n{kernel}\n");
    let built = fs::read_to_string(&record).unwrap_or_default();
    if built == text {
        return Ok(());
    }
    let output = target.join(GUEST_TARGET);
    if built.starts_with(&format!("{installation}\n")) {
        images::remove_programs(&output.join("debug"))?;
    } else if output.is_dir() {
        fs::remove_dir_all(&output).with_context(|| format!("cannot remove {}", output.display()))?;
    }
    fs::create_dir_all(target)
        .and_then(|()| fs::write(&record, text))
        .context("cannot write to the target folder")
}

/// Fails unless the program uses exactly the listed crates, and these depend on exactly the listed patched
/// crates.
fn check_list(group: &Group, program: &Path, patched: &BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    let names = process::output(Command::new(program).arg("list"))?;
    let names: BTreeSet<&str> = names.lines().collect();
    let listed: BTreeSet<&str> = group.crates.keys().map(String::as_str).collect();
    let differing: Vec<_> = names.symmetric_difference(&listed).collect();
    ensure!(differing.is_empty(), "the program or the list has no {differing:?}");
    check_patched(group, patched)
}

fn check_patched(group: &Group, patched: &BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    let none = BTreeSet::new();
    let differing: Vec<_> = group
        .crates
        .iter()
        .map(|(name, listed)| (name, listed, patched.get(name).unwrap_or(&none)))
        .filter(|(_, listed, actual)| listed != actual)
        .map(|(name, listed, actual)| {
            format!("{name} is built with the patched crates {actual:?}, the list has {listed:?}")
        })
        .collect();
    ensure!(differing.is_empty(), "{}", differing.join("\n"));
    Ok(())
}

/// Fails unless a program prints the same in a guest as on Linux.
fn compare(on_linux: &mut Command, guest: TestGuest<'_>) -> Result<()> {
    // Guests do not get these variables.
    on_linux.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    let on_linux = on_linux.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&on_linux.stderr);
    ensure!(on_linux.status.success(), "failed on Linux ({}): {errors}", on_linux.status);
    ensure!(!on_linux.stdout.is_empty(), "printed nothing on Linux");
    let outcome = guest.cpus(2).memory(MEMORY).expect(0, &[])?;
    same(&String::from_utf8_lossy(&on_linux.stdout), &String::from_utf8_lossy(&outcome.output))
}

/// Fails unless the outputs are equal. The error names the first line that differs.
fn same(on_linux: &str, in_machine: &str) -> Result<()> {
    let count = on_linux.lines().count().max(in_machine.lines().count());
    let line = |text: &str, index| text.lines().nth(index).unwrap_or("(the end)").to_owned();
    let differs = |index: &usize| line(on_linux, *index) != line(in_machine, *index);
    let first = (0..count).find(differs).unwrap_or(count);
    ensure!(
        on_linux == in_machine,
        "line {} differs:\non Linux      {}\nin a machine  {}",
        first + 1,
        line(on_linux, first),
        line(in_machine, first)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_patched, discard_outdated, has_test, same};
    use crate::compatibility::Crates;
    use hermit_toolchain::target::GUEST_TARGET;
    use std::collections::BTreeMap;
    use std::fs;

    #[test]
    fn programs_of_another_kernel_and_all_of_another_std_are_removed() {
        let target = tempfile::tempdir().unwrap();
        let deps = target.path().join(GUEST_TARGET).join("debug/deps");
        fs::create_dir_all(&deps).unwrap();
        let fill = || ["program-1", "lib-1.rlib"].map(|name| fs::write(deps.join(name), "").unwrap());
        let has = |name: &str| deps.join(name).exists();
        let discard = |std: &str, kernel: &str| {
            discard_outdated(target.path(), &[std.to_owned(), kernel.to_owned()]).unwrap();
        };
        fill();
        discard("std 1", "kernel 1");
        assert!(!has("lib-1.rlib"));
        fs::create_dir_all(&deps).unwrap();
        fill();
        fs::create_dir(deps.join("rustcABC")).unwrap();
        discard("std 1", "kernel 1");
        assert!(has("program-1") && has("lib-1.rlib"));
        discard("std 1", "kernel 2");
        assert!(!has("program-1") && has("lib-1.rlib"));
        discard("std 2", "kernel 2");
        assert!(!has("lib-1.rlib"));
    }

    #[test]
    fn text_selects_groups_and_those_of_crates() {
        let list = Crates::read().unwrap();
        let selected = |text| {
            let groups = list.groups.iter().filter(|group| has_test(group, Some(text)));
            groups.map(|group| group.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(selected("numbers"), ["numbers"]);
        assert_eq!(selected("crates_numbers: ndarray"), ["numbers"]);
        assert_eq!(selected("serde_json"), ["formats"]);
        assert_eq!(selected("no such crate"), [""; 0]);
        assert!(list.groups.iter().all(|group| has_test(group, None)));
    }

    #[test]
    fn first_line_that_differs_is_named() {
        assert!(same("a\nb\n", "a\nb\n").is_ok());
        let message = same("a\nb\n", "a\nc\nd\n").unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains('b') && message.contains('c'), "{message}");
        let message = same("a\n", "a\nb\n").unwrap_err().to_string();
        assert!(message.contains("(the end)"), "{message}");
    }

    #[test]
    fn errors_name_all_patches_that_are_not_listed() {
        let list = Crates::read().unwrap();
        let group = &list.groups[0];
        let mut patched: BTreeMap<_, _> = group
            .crates
            .iter()
            .filter(|(_, by)| !by.is_empty())
            .map(|(name, by)| (name.clone(), by.clone()))
            .collect();
        assert!(check_patched(group, &patched).is_ok());
        let names: Vec<_> = group.crates.keys().take(2).collect();
        for name in &names {
            patched.entry((*name).clone()).or_default().insert(format!("other than {name}"));
        }
        let message = check_patched(group, &patched).unwrap_err().to_string();
        assert!(names.iter().all(|name| message.contains(&format!("other than {name}"))), "{message}");
    }
}
