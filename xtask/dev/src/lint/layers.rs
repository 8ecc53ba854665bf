//! Layers inside of a crate: which modules may not import which other ones.
//!
//! Between crates, the manifests say what depends on what. Inside of a crate, only this table does.

use super::rules::Violation;
use super::scan;

/// Folders, and what their files do not import. Tests may.
const LAYERS: [(&str, &[&str]); 3] = [
    ("kernel/fs/src/interface", &["crate::impls", "crate::vfs"]),
    ("kernel/fs/src/impls", &["crate::vfs"]),
    ("kernel/fs/src/vfs", &["crate::impls"]),
];

/// Returns the imports of a file that run upwards or sideways.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let is_test = file.contains("/tests/") || file.ends_with("/tests.rs") || file.ends_with("/models.rs");
    let forbidden = LAYERS.iter().filter(|(folder, _)| file.starts_with(folder) && !is_test);
    let forbidden: Vec<&str> = forbidden.flat_map(|(_, imports)| imports.iter().copied()).collect();
    if forbidden.is_empty() {
        return Vec::new();
    }
    let code = scan::code_without_tests(text);
    let lines = code.split(|byte| *byte == b'\n').enumerate();
    let has = |line: &[u8], import: &str| line.windows(import.len()).any(|part| part == import.as_bytes());
    let found = lines.flat_map(|(number, line)| {
        let imports = forbidden.iter().filter(move |import| has(line, import));
        imports
            .map(move |import| Violation::new(file, number, format!("this layer does not import {import}")))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines(file: &str, text: &str) -> Vec<String> {
        check(file, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn import_of_a_higher_layer_is_a_violation_outside_of_tests() {
        let text =
            "use crate::interface::A;\nuse crate::vfs::B;\n#[cfg(test)]\nmod tests { use crate::vfs::C; }\n";
        let file = "kernel/fs/src/impls/ramfs.rs";
        assert_eq!(lines(file, text), [format!("{file}:2: this layer does not import crate::vfs")]);
        assert_eq!(lines("kernel/fs/src/vfs/walk.rs", text).len(), 0);
        assert_eq!(lines("kernel/fs/src/impls/procfs/tests.rs", text).len(), 0);
        assert_eq!(lines("kernel/io/src/impls.rs", text).len(), 0);
    }
}
