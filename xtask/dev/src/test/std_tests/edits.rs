//! The edits of the tests' sources, in the copy that is built: std's tests know the target as little as other
//! crates do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Files in which the target is to be tested as a Unix system, from the folder `library`.
const LIKE_UNIX: [&str; 9] = [
    "std/src/ffi/os_str/tests.rs",
    "std/src/fs/tests.rs",
    "std/src/io/pipe/tests.rs",
    "std/src/net/tcp/tests.rs",
    "std/src/os/fd/tests.rs",
    "std/tests/env.rs",
    "std/tests/env_modify.rs",
    "std/tests/path.rs",
    "std/tests/time.rs",
];

/// What is replaced wherever it occurs in [`LIKE_UNIX`].
const UNIX: [(&str, &str); 6] = [
    ("cfg(unix)", "cfg(any(target_os = \"hermit\", unix))"),
    ("cfg!(unix)", "cfg!(any(target_os = \"hermit\", unix))"),
    ("any(unix,", "any(target_os = \"hermit\", unix,"),
    ("all(unix,", "all(any(target_os = \"hermit\", unix),"),
    ("os::unix::", "os::hermit::"),
    ("        unix => {", "        any(target_os = \"hermit\", unix) => {"),
];

/// A replacement in a file.
#[derive(Debug)]
struct Edit {
    file: &'static str,
    /// The text, as it is after the replacements of [`UNIX`].
    find: &'static str,
    replace: &'static str,
    /// How often the text occurs.
    count: usize,
}

const EDITS: [Edit; 5] = [
    // Files can be locked.
    Edit {
        file: "std/src/fs/tests.rs",
        find: "        target_os = \"hurd\",\n",
        replace: "        target_os = \"hermit\",\n        target_os = \"hurd\",\n",
        count: 4,
    },
    // `os::hermit::fs` has stable functions only.
    Edit {
        file: "std/src/fs/tests.rs",
        find: "#[cfg(any(target_os = \"hermit\", unix))]\nfn test_read_buf_at() {",
        replace: "#[cfg(unix)]\nfn test_read_buf_at() {",
        count: 1,
    },
    Edit {
        file: "std/src/fs/tests.rs",
        find: "#[cfg(any(target_os = \"hermit\", unix))]\nfn test_read_buf_exact_at() {",
        replace: "#[cfg(unix)]\nfn test_read_buf_exact_at() {",
        count: 1,
    },
    // Tests of processes compile, and fail.
    Edit {
        file: "std/src/process/tests.rs",
        find: "#[cfg(all(unix, not(target_os = \"android\")))]\n",
        replace: "#[cfg(not(any(windows, target_os = \"android\")))]\n",
        count: 1,
    },
    // This one does not: it calls `os::unix::process::CommandExt`.
    Edit {
        file: "std/src/process/tests.rs",
        find: "#[cfg(not(windows))]\n",
        replace: "#[cfg(unix)]\n",
        count: 1,
    },
];

/// Edits a copy of the folder `library`.
pub(super) fn apply(library: &Path) -> Result<()> {
    for name in LIKE_UNIX {
        change(library, name, |text| {
            let edited =
                UNIX.iter().fold(text.to_owned(), |text, (find, replace)| text.replace(find, replace));
            ensure!(edited != text, "{name} does not mention Unix systems");
            Ok(edited)
        })?;
    }
    for edit in &EDITS {
        change(library, edit.file, |text| edit.apply(text))?;
    }
    Ok(())
}

/// Identifies the edits.
pub(super) fn key() -> String {
    format!("{LIKE_UNIX:?} {UNIX:?} {EDITS:?}")
}

fn change(library: &Path, name: &str, edit: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let file = library.join(name);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::write(&file, edit(&text)?).with_context(|| format!("cannot write {}", file.display()))
}

impl Edit {
    fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(self.find).count();
        ensure!(
            found == self.count,
            "{} contains {:?} {found} times, not {}: the edits of std's tests are for another version of Rust",
            self.file,
            self.find,
            self.count
        );
        Ok(text.replace(self.find, self.replace))
    }
}

#[cfg(test)]
mod tests {
    use super::Edit;

    #[test]
    fn text_that_occurs_another_number_of_times_is_an_error() {
        let edit = Edit { file: "f", find: "a", replace: "b", count: 2 };
        assert_eq!(edit.apply("a, a").unwrap(), "b, b");
        assert!(edit.apply("a").unwrap_err().to_string().contains("1 times, not 2"));
    }
}
