//! Compares the table of crates in the architecture document with the manifests.

use std::collections::BTreeSet;
use std::path::Path;

use super::rules::Violation;

/// The document with the table, from the repository's root.
pub(super) const DOCUMENT: &str = "docs/architecture.md";

/// Heading of the table.
const HEADING: &str = "| crate | what it is | depends on, of ours |";

/// Prefix of package names that the table leaves out, except in [`ABI`].
const PREFIX: &str = "hermit-";

/// The only package with the prefix whose full name is in the table.
const ABI: &str = "hermit-abi";

/// Compares each row with the manifest in the crate's folder. `manifests` are pairs of a path and the
/// contents.
pub(super) fn check(document: &str, manifests: &[(String, String)]) -> Vec<Violation> {
    let is_row = |(_, line): &(usize, &str)| line.starts_with("| `");
    let rows =
        (0..).zip(document.lines()).skip_while(|(_, line)| *line != HEADING).skip(2).take_while(is_row);
    let mut found = Vec::new();
    let mut documented = BTreeSet::new();
    for (number, line) in rows {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, _, dependencies] = cells[..] else {
            found.push(Violation::new(
                DOCUMENT,
                number,
                "a row of the crate table has three cells".to_owned(),
            ));
            continue;
        };
        let folder = folder.trim_matches('`');
        documented.insert(folder);
        let manifest = manifests.iter().find(|(file, _)| Path::new(file).parent() == Some(Path::new(folder)));
        let Some((_, manifest)) = manifest else {
            found.push(Violation::new(DOCUMENT, number, format!("there is no {folder}/Cargo.toml")));
            continue;
        };
        let (listed, actual) = (quoted(dependencies), dependencies_of(manifest));
        if listed != actual {
            let message = format!("{folder} depends on {actual:?}, the table says {listed:?}");
            found.push(Violation::new(DOCUMENT, number, message));
        }
    }
    if documented.is_empty() {
        found.push(Violation::new(DOCUMENT, 0, "the table of crates is missing".to_owned()));
    }
    found
}

/// Returns the words in code quotes.
fn quoted(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the dependencies on crates of the workspace, as the table names them.
fn dependencies_of(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    let ours = names.filter(|name| name.starts_with(PREFIX) || ["xtask", "uhyve"].contains(name));
    ours.map(|name| if name == ABI { name } else { name.strip_prefix(PREFIX).unwrap_or(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::{HEADING, check, dependencies_of};

    const MANIFEST: &str = "[package]\nname = \"a\"\n[dependencies]\nanyhow.workspace = true\nhermit-abi.workspace = true\n\
         hermit-io = { workspace = true }\n\n[dev-dependencies]\nhermit-boot.workspace = true\n";

    fn messages(row: &str) -> Vec<String> {
        let document = format!("text\n{HEADING}\n| --- | --- | --- |\n{row}\n\nmore\n");
        let manifests = [("kernel/a/Cargo.toml".to_owned(), MANIFEST.to_owned())];
        check(&document, &manifests).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependencies_are_those_of_the_workspace() {
        assert_eq!(dependencies_of(MANIFEST).into_iter().collect::<Vec<_>>(), ["hermit-abi", "io"]);
    }

    #[test]
    fn rows_that_differ_from_manifests_are_reported() {
        assert!(messages("| `kernel/a` | x | `io`, `hermit-abi` |").is_empty());
        assert_eq!(messages("| `kernel/a` | x | `io` |").len(), 1);
        assert_eq!(messages("| `kernel/b` | x | nothing |").len(), 1);
        assert_eq!(messages("text").len(), 1);
    }
}
