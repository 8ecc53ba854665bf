//! Formats tables in Markdown: rows, numbers, and the text below a table.

/// Maximum length of a line of text below a table.
const MAX_LINE: usize = 120;

/// Formats a table in Markdown. The first row is the heading.
pub(super) fn lines(rows: &[Vec<String>]) -> String {
    let cell = |cell: &String| if cell.is_empty() { "| ".to_owned() } else { format!("| {cell} ") };
    let line = |cells: &Vec<String>| cells.iter().map(cell).collect::<String>() + "|\n";
    let mut rows = rows.iter();
    let Some(head) = rows.next() else { return String::new() };
    // A column without a title has text, so it is aligned to the left.
    let rule: String =
        head.iter().skip(1).map(|title| if title.is_empty() { " --- |" } else { " ---: |" }).collect();
    let rule = format!("| --- |{rule}\n");
    let body: String = rows.map(line).collect();
    line(head) + &rule + &body
}

/// Returns a figure with at least three digits, and with commas between thousands.
pub(super) fn number(figure: f64) -> String {
    let decimals = match figure.abs() {
        figure if figure.fract().abs() < 1e-9 || figure >= 100.0 => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 5,
    };
    let text = format!("{figure:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    // A figure below 1 has as many decimals as it needs.
    let fraction = if decimals == 5 { fraction.trim_end_matches('0') } else { fraction };
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

/// Returns the text in lines of at most [`MAX_LINE`] characters.
pub(super) fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > MAX_LINE {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word_length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::{number, wrap};

    #[test]
    fn numbers_have_three_digits_and_commas() {
        for (figure, text) in [
            (0.0, "0"),
            (0.0003, "0.0003"),
            (1.9, "1.90"),
            (30.84, "30.8"),
            (344.4, "344"),
            (6.0, "6"),
            (243_192.0, "243,192"),
            (1_234_567.8, "1,234,568"),
        ] {
            assert_eq!(number(figure), text);
        }
    }

    #[test]
    fn text_is_wrapped() {
        let text = wrap(&"four ".repeat(40));
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= 120), "{text}");
    }
}
