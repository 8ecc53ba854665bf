//! Lint: uhyve and its options open only fixed paths directly. Paths that the operator names must be opened
//! by `hermit_options::open`, which checks symbolic links and kinds of files.

use super::rules::Violation;
use super::scan;

/// Folders that are checked. Their programs open paths that root names.
const FOLDERS: [&str; 2] = ["hypervisor/src/", "hypervisor/options/src/"];

/// Files that may open other paths directly.
const ALLOWED: [&str; 6] = [
    // The function `hermit_options::open` itself.
    "hypervisor/options/src/open.rs",
    // Opens folders of processes in /proc.
    "hypervisor/options/src/children.rs",
    // Opens numbers in /proc/self/fd.
    "hypervisor/src/devices/fs/folder.rs",
    // Opens a constant: /dev/net/tun.
    "hypervisor/src/devices/net/backend/tap.rs",
    // Reads the status of gdb's socket, but does not open it as a file.
    "hypervisor/src/gdb/connection.rs",
    // Opens folders that a fuzz target has made.
    "hypervisor/src/devices/fuzzing/",
];

/// Calls whose first argument is a path.
const CALLS: [&str; 17] = [
    "File::open(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions::new(",
    "fs::canonicalize(",
    "fs::copy(",
    "fs::metadata(",
    "fs::open(",
    "fs::openat(",
    "fs::openat2(",
    "fs::read(",
    "fs::read_dir(",
    "fs::read_link(",
    "fs::read_to_string(",
    "fs::symlink_metadata(",
    "fs::write(",
];

/// The calls in [`CALLS`] that have no path argument. The path follows in the call of `open`.
const BUILDERS: [&str; 2] = ["File::options(", "OpenOptions::new("];

/// Functions of rustix that code calls by their name alone if it imports them.
const IMPORTED: [&str; 3] = ["open", "openat", "openat2"];

/// Returns the violations in the code of a file, without its tests.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    let is_checked = FOLDERS.iter().any(|folder| file.starts_with(folder)) && !is_test;
    if !is_checked || ALLOWED.iter().any(|allowed| file.starts_with(allowed)) {
        return Vec::new();
    }
    let code = scan::code_without_tests(text);
    let code = String::from_utf8_lossy(&code);
    let calls: Vec<String> =
        CALLS.map(str::to_owned).into_iter().chain(imported(&code).map(|name| format!("{name}("))).collect();
    let mut found: Vec<usize> = calls.iter().flat_map(|call| uses(&code, text, call)).collect();
    found.sort_unstable();
    let violation = |at: usize| {
        let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count();
        let message =
            "a path is opened by hermit_options::open, which decides about links and kinds of files";
        Violation::new(file, line, message.to_owned())
    };
    found.into_iter().map(violation).collect()
}

/// Returns the functions in [`IMPORTED`] that the code imports from rustix.
fn imported(code: &str) -> impl Iterator<Item = &'static str> {
    let lists = code.match_indices("use rustix::fs::").map(|(start, _)| &code[start..]);
    let lists = lists.map(|list| &list[..list.find(';').unwrap_or(list.len())]);
    let words: Vec<&str> = lists
        .flat_map(|list| list.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .collect();
    IMPORTED.into_iter().filter(move |name| words.contains(name))
}

/// Returns the positions at which a function is called with an argument other than the literal of an absolute
/// path.
fn uses(code: &str, text: &str, call: &str) -> Vec<usize> {
    let is_call = |at: &usize| {
        // `std::fs::read` and `fs::File::open` are the same as the imported names.
        let mut before = &code[..*at];
        while let Some(rest) =
            ["std::", "rustix::", "fs::"].iter().find_map(|module| before.strip_suffix(module))
        {
            before = rest;
        }
        let is_part = before.ends_with(|letter: char| letter.is_alphanumeric() || "_.:".contains(letter));
        !is_part && !before.trim_end_matches(' ').ends_with("fn")
    };
    let is_fixed = |at: &usize| {
        let rest = &text[*at + call.len()..];
        let argument = rest.trim_start_matches(['&', ' ', '\n']).trim_start_matches("format!(");
        // The path of a builder is the argument of its last call, `open`.
        let built = rest.split(';').next().and_then(|statement| statement.split(".open(").nth(1));
        if BUILDERS.contains(&call) { built.unwrap_or_default() } else { argument }.starts_with("\"/")
    };
    code.match_indices(call).map(|(at, _)| at).filter(|at| is_call(at) && !is_fixed(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines(file: &str, code: &str) -> Vec<String> {
        let found = check(file, &format!("//! X.\n{code}\n"));
        found
            .iter()
            .map(|found| found.to_string().split(": a path").next().unwrap_or("").to_owned())
            .collect()
    }

    #[test]
    fn other_ways_to_open_a_path_are_found() {
        for code in [
            "let file = File::open(&path);",
            "let file = fs::File::create(path)?;",
            "let text = std::fs::read_to_string(name);",
            "let file = OpenOptions::new().read(true).open(path);",
            "use rustix::fs::{Mode, open};\nlet file = open(path, flags, mode);",
            "let file = rustix::fs::openat(CWD, path, flags, mode);",
        ] {
            let number = code.lines().count() + 1;
            for file in ["hypervisor/src/a.rs", "hypervisor/options/src/b/c.rs"] {
                assert_eq!(lines(file, code), [format!("{file}:{number}")], "{code}");
            }
            for file in ["xtask/src/a.rs", "hypervisor/tests/a.rs", "hypervisor/options/src/open.rs"] {
                assert!(lines(file, code).is_empty(), "{file}: {code}");
            }
        }
    }

    #[test]
    fn fixed_paths_own_functions_and_tests_are_allowed() {
        for code in [
            "let text = fs::read_to_string(\"/proc/meminfo\");",
            "let text = fs::read(format!(\"/proc/{id}/status\"));",
            "let null = File::options().write(true).open(\"/dev/null\")?;",
            "use rustix::fs::open;\nlet folder = open(\"/proc/self/fd\", flags, mode);",
            "let file = opener.open(path); fn open(path: &Path) {} let other = open(path);",
            "// File::open(path)\nlet text = \"File::open(path)\";",
            "#[cfg(test)]\nmod tests {\n    fn a() { fs::write(path, text); }\n}",
        ] {
            assert!(lines("hypervisor/src/a.rs", code).is_empty(), "{code}");
        }
    }
}
