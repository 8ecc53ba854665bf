//! Tests of the symbols of std, the kernel and images. They compare the undefined symbols of std, the
//! declarations in `hermit-abi` and the exports of the kernel. They also check which images contain the
//! network stack.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::target::GUEST_TARGET;
use hermit_toolchain::{Toolchain, cargo};
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};

use super::images::{BUMP_CALLS, Images, TLSF_CALLS};
use super::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, images: &'a Images) {
    tests.add("symbols: the kernel exports what hermit-abi declares", exports);
    tests.add("symbols: std needs nothing else", std_needs);
    tests.add("symbols: only programs with sockets contain the network stack", || network(images));
    tests.add("symbols: images contain the allocator that they select, and no other one", || {
        allocators(images)
    });
}

/// Parts of the names of crates of the network.
const NETWORK: [&str; 4] = ["smoltcp", "hermit_net", "hermit_net_stack", "hermit_resolver"];

fn declared() -> BTreeSet<String> {
    hermit_abi::SYMBOLS.iter().map(|&name| name.to_owned()).collect()
}

/// The kernel exports exactly the functions that `hermit-abi` declares.
fn exports() -> Result<()> {
    let library = cargo::build_kernel()?;
    let defined = symbols(&library, |symbol| symbol.is_global() && symbol.is_definition())?;
    let exported: BTreeSet<_> = defined.into_iter().filter(|name| name.starts_with("sys_")).collect();
    compare("hermit-abi declares", &declared(), "the kernel exports", &exported)
}

/// Returns the demangled names of the functions and static variables of an image.
fn names(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = object::File::parse(bytes.as_slice())?;
    // Excludes the names of source files: the linker keeps them even for object files that it does not use.
    let symbols = image.symbols().filter(|symbol| symbol.is_definition());
    let names = symbols.filter_map(|symbol| symbol.name().ok());
    let symbols: Vec<_> = names.map(|name| format!("{:#}", rustc_demangle::demangle(name))).collect();
    let has_kernel = symbols.iter().any(|symbol| symbol.contains("hermit_kernel"));
    ensure!(has_kernel, "{} has no symbols", path.display());
    Ok(symbols)
}

/// The network stack is linked into a program that uses sockets. No part of it is linked into a program that
/// does not.
fn network(images: &Images) -> Result<()> {
    let of_network = |example: &str| -> Result<Vec<String>> {
        let symbols = names(&images.image(example))?;
        Ok(symbols.into_iter().filter(|symbol| NETWORK.iter().any(|name| symbol.contains(name))).collect())
    };
    let symbols = of_network("hello_world")?;
    ensure!(symbols.is_empty(), "hello_world contains {}", symbols.join(", "));
    ensure!(!of_network("httpd")?.is_empty(), "httpd does not contain the network stack");
    Ok(())
}

/// An image for each allocator, with parts of the names of the allocator's symbols: those of its crate, and
/// those of the kernel's modules for it.
const ALLOCATORS: [(&str, &[&str]); 3] = [
    ("abi_calls", &["talc::base", "shared::talc"]),
    (TLSF_CALLS, &["rlsf::", "shared::tlsf"]),
    (BUMP_CALLS, &["heap::bump"]),
];

/// Parts of the names of the symbols of the free lists. The first two allocators have these lists in front of
/// them.
const LISTS: [&str; 2] = ["heap::lists", "size_classes::"];

/// An image contains the allocator that its program selects, and no symbols of the other allocators.
fn allocators(images: &Images) -> Result<()> {
    for (image, own) in ALLOCATORS {
        let symbols = names(&images.image(image))?;
        let of = |parts: &[&str]| -> Vec<&str> {
            let is_named = |symbol: &&String| parts.iter().any(|part| symbol.contains(part));
            symbols.iter().filter(is_named).map(String::as_str).collect()
        };
        ensure!(!of(own).is_empty(), "{image} does not contain its allocator");
        for (other, parts) in ALLOCATORS.iter().filter(|(other, _)| *other != image) {
            let found = of(parts);
            ensure!(found.is_empty(), "{image} contains of that of {other}: {}", found.join(", "));
        }
        ensure!(of(&LISTS).is_empty() == (image == BUMP_CALLS), "{image}: {:?}", of(&LISTS));
    }
    Ok(())
}

/// `hermit-abi` declares every undefined symbol of std, and their number is the expected one.
fn std_needs() -> Result<()> {
    let folder = Toolchain::detect()?.rustlib().join(GUEST_TARGET).join("lib");
    let library = |prefix: &str| -> Result<PathBuf> {
        let files = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let names = files.flatten().map(|file| file.path());
        let found = names.into_iter().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(".rlib")
        });
        found.with_context(|| format!("{} has no {prefix}*.rlib", folder.display()))
    };
    let open = symbols(&library("libstd.")?, |symbol| symbol.is_undefined())?;
    let needed: BTreeSet<_> = open.into_iter().filter(|name| name.starts_with("sys_")).collect();
    ensure!(
        needed.len() == NEEDED_BY_STD,
        "std needs {} functions, not {NEEDED_BY_STD}: {needed:?}",
        needed.len()
    );
    let unknown: Vec<_> = needed.difference(&declared()).cloned().collect();
    ensure!(
        unknown.is_empty(),
        "std needs functions that hermit-abi does not declare: {}",
        unknown.join(", ")
    );
    Ok(())
}

/// Number of system calls that std 1.95.0 uses with this project's patches. `pread` and `pwrite` do not
/// count, because their callers are inlined into programs. Another number means that the documents of the ABI
/// are out of date.
const NEEDED_BY_STD: usize = 69;

/// Returns the names of those symbols in an archive's object files for which `wanted` returns true.
fn symbols(archive: &Path, wanted: impl Fn(&object::Symbol<'_, '_>) -> bool) -> Result<BTreeSet<String>> {
    let bytes = fs::read(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let file = ArchiveFile::parse(bytes.as_slice())
        .with_context(|| format!("{} is no archive", archive.display()))?;
    let mut names = BTreeSet::new();
    for member in file.members() {
        let data = member?.data(bytes.as_slice())?;
        // Members that are not object files contain metadata of the compiler.
        let Ok(object) = object::File::parse(data) else { continue };
        let picked = object.symbols().filter(|symbol| wanted(symbol));
        names.extend(picked.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
    }
    Ok(names)
}

fn compare(one: &str, left: &BTreeSet<String>, other: &str, right: &BTreeSet<String>) -> Result<()> {
    let missing: Vec<_> = left.difference(right).cloned().collect();
    let extra: Vec<_> = right.difference(left).cloned().collect();
    ensure!(missing.is_empty() && extra.is_empty(), "only {one}: {missing:?}; only {other}: {extra:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::compare;
    use std::collections::BTreeSet;

    #[test]
    fn any_difference_is_an_error() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        assert!(compare("a", &set(&["x"]), "b", &set(&["x"])).is_ok());
        assert!(compare("a", &set(&["x"]), "b", &set(&[])).is_err());
        assert!(compare("a", &set(&[]), "b", &set(&["x"])).is_err());
    }
}
