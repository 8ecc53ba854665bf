//! Generated parts of Markdown files, between two marker lines.

use anyhow::{Context, Result};

/// Start of the line above a table. The table's name follows.
const BEGIN: &str = "<!-- figures: ";

/// End of the line above a table.
const BEGIN_END: &str = " -->";

/// The line below a table.
const END: &str = "<!-- /figures -->";

/// Replaces the text between each pair of markers by the result of `generate`, which gets the name in the
/// first marker. Returns the new text.
///
/// # Errors
///
/// Fails if a marker has no counterpart or `generate` fails.
pub(super) fn replace(text: &str, generate: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let name = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(BEGIN_END));
        let Some(name) = name else { continue };
        lines.find(|line| *line == END).with_context(|| format!("no `{END}` follows `{line}`"))?;
        out.push_str(&generate(name)?);
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::replace;
    use anyhow::bail;

    #[test]
    fn text_between_markers_is_replaced() {
        let text =
            "a\n<!-- figures: x -->\nold\n<!-- /figures -->\nb\n<!-- figures: y -->\n<!-- /figures -->\n";
        let new = replace(text, |name| Ok(format!("new {name}\n"))).unwrap();
        let expected = "a\n<!-- figures: x -->\nnew x\n<!-- /figures -->\nb\n\
                        <!-- figures: y -->\nnew y\n<!-- /figures -->\n";
        assert_eq!(new, expected);
        assert_eq!(replace(&new, |name| Ok(format!("new {name}\n"))).unwrap(), new);
    }

    #[test]
    fn missing_end_and_unknown_name_are_errors() {
        assert!(replace("<!-- figures: x -->\ntext\n", |_| Ok(String::new())).is_err());
        let text = "<!-- figures: x -->\n<!-- /figures -->\n";
        assert!(replace(text, |name| bail!("no table {name}")).is_err());
    }
}
