//! `cargo xtask lint --unsafe`: measures the trusted computing base, that is, the code that could violate
//! memory safety.
//!
//! A crate that uses `unsafe` is trusted as a whole, because its safe code can break the invariants of its
//! unsafe code. Only code of the image counts: no comments, blank lines, tests or build scripts.

use std::collections::BTreeMap;

use super::scan::{self, Code};

/// The measured crates by folder. A folder inside a crate's folder may be another crate.
const CRATES: [(&str, SystemPart); 5] = [
    ("kernel/boot", SystemPart::Other),
    ("kernel", SystemPart::Kernel),
    ("hermit-abi", SystemPart::Other),
    ("loader", SystemPart::Other),
    ("hermit-sys", SystemPart::Other),
];

/// Folder of programs that test the kernel. They are not part of it.
const TESTS: &str = "kernel/tests";

/// The crate that links the other crates into the kernel. Its unsafe code is in few files.
const ASSEMBLER: &str = "kernel";

/// The part of the system to which a crate belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SystemPart {
    /// The kernel, which is linked into every image.
    Kernel,
    /// Everything else.
    Other,
}

/// The counts of a crate.
#[derive(Debug, Default)]
struct Crate {
    in_kernel: bool,
    forbids: bool,
    code: Code,
    /// Lines of the files that use unsafe.
    lines_in_unsafe_files: usize,
}

impl Crate {
    /// Returns the number of the crate's lines if the crate uses `unsafe` and so is trusted, otherwise 0.
    fn trusted_lines(&self) -> usize {
        if self.code.uses_unsafe() { self.code.lines } else { 0 }
    }
}

/// Returns a report about the crates of `files`, which are paths with contents.
///
/// `manifests` are the paths of the workspace's `Cargo.toml` files.
pub(super) fn report(manifests: &[String], files: &[(String, String)]) -> String {
    let folders: Vec<&str> = manifests.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).collect();
    let tests: Vec<String> = files.iter().flat_map(|(path, text)| scan::test_files(path, text)).collect();
    let mut crates = BTreeMap::<&str, Crate>::new();
    for (path, text) in files {
        let is_test = tests.iter().any(|test| path.starts_with(test));
        let owner = folders.iter().filter(|folder| path.starts_with(&format!("{folder}/src/")));
        let Some(&folder) = owner.max_by_key(|folder| folder.len()) else { continue };
        let part = CRATES.iter().find(|(prefix, _)| is_below(folder, prefix) && !is_below(folder, TESTS));
        let (Some((_, part)), false) = (part, is_test) else { continue };
        let entry = crates.entry(folder).or_default();
        entry.in_kernel = *part == SystemPart::Kernel;
        entry.forbids |= text.contains("#![forbid(unsafe_code)]");
        let code = scan::measure(text);
        entry.code.add(code);
        if code.uses_unsafe() {
            entry.lines_in_unsafe_files += code.lines;
        }
    }
    table(&crates) + &summary(&crates)
}

fn is_below(folder: &str, prefix: &str) -> bool {
    folder.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn table(crates: &BTreeMap<&str, Crate>) -> String {
    let mut out = format!(
        "{:<18} {:>6}  {:<7} {:>6} {:>5} {:>9} {:>5}\n",
        "crate", "lines", "unsafe", "blocks", "impls", "functions", "other"
    );
    for (folder, Crate { in_kernel, forbids, code, .. }) in crates {
        let policy = if *forbids { "forbids" } else { "has" };
        let policy = if *forbids || code.uses_unsafe() { policy } else { "no" };
        let mark = if *in_kernel { "" } else { " *" };
        out += &format!(
            "{:<18} {:>6}  {policy:<7} {:>6} {:>5} {:>9} {:>5}\n",
            format!("{folder}{mark}"),
            code.lines,
            code.blocks,
            code.impls,
            code.functions,
            code.other
        );
    }
    out + "other: attributes, traits, foreign blocks, global assembly\n\
           * not counted as the kernel; kernel/boot runs in the loader\n\n"
}

fn summary(crates: &BTreeMap<&str, Crate>) -> String {
    let kernel = || crates.iter().filter(|(_, krate)| krate.in_kernel);
    let all: usize = kernel().map(|(_, krate)| krate.code.lines).sum();
    let by_crate = kernel().map(|(_, krate)| krate.trusted_lines()).sum();
    let by_file = kernel().map(|(_, krate)| krate.lines_in_unsafe_files).sum();
    let mixed = kernel().map(|(folder, krate)| match *folder {
        ASSEMBLER => krate.lines_in_unsafe_files,
        _ => krate.trusted_lines(),
    });
    let line = |what: &str, part: usize| format!("{what}: {part} / {all} lines = {} %\n", percent(part, all));
    line("kernel crates that use unsafe", by_crate)
        + &line("the same, with the crate `kernel` counted by file", mixed.sum())
        + &line("kernel files that use unsafe", by_file)
}

/// Returns a share in percent, with one decimal.
fn percent(part: usize, all: usize) -> String {
    let tenths = (part * 1000 + all / 2) / all.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{percent, report};

    fn own(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn report_separates_crates() {
        let manifests = ["Cargo.toml", "kernel/Cargo.toml", "kernel/io/Cargo.toml", "kernel/boot/Cargo.toml"];
        let files = own(&[
            ("kernel/src/lib.rs", "fn a() {}\nfn b() {}\n#[cfg(test)]\nmod tests;\n"),
            ("kernel/src/tests.rs", "fn not_counted() {}\n"),
            ("kernel/src/start.rs", "fn c() { unsafe { d() } }\n"),
            ("kernel/io/src/lib.rs", "#![forbid(unsafe_code)]\nfn e() {}\nfn f() {}\n"),
            ("kernel/boot/src/lib.rs", "fn g() {}\n"),
            ("xtask/src/main.rs", "fn h() { unsafe { i() } }\n"),
        ]);
        let text = report(&manifests.map(str::to_owned), &files);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("kernel"), ["3", "has", "1", "0", "0", "0"]);
        assert_eq!(row("kernel/io"), ["3", "forbids", "0", "0", "0", "0"]);
        assert_eq!(row("kernel/boot"), ["*", "1", "no", "0", "0", "0", "0"]);
        assert!(!text.contains("xtask"));
        assert!(text.contains("kernel crates that use unsafe: 3 / 6 lines = 50.0 %"), "{text}");
        assert!(text.contains("counted by file: 1 / 6 lines = 16.7 %"), "{text}");
        assert!(text.contains("kernel files that use unsafe: 1 / 6 lines = 16.7 %"), "{text}");
    }

    #[test]
    fn percent_rounds_to_one_decimal() {
        assert_eq!(percent(1, 3), "33.3");
        assert_eq!(percent(2, 3), "66.7");
        assert_eq!(percent(0, 0), "0.0");
        assert_eq!(percent(5, 5), "100.0");
    }
}
