//! The legacy mangling: `_ZN`, the path segments with their lengths, a hash, `E`.

use core::fmt::Write;

use super::number;

/// Escape sequences of characters that assemblers do not accept in symbols.
const ESCAPES: [(&str, &str); 8] = [
    ("$LT$", "<"),
    ("$GT$", ">"),
    ("$RF$", "&"),
    ("$BP$", "*"),
    ("$LP$", "("),
    ("$RP$", ")"),
    ("$SP$", "@"),
    ("$C$", ","),
];

/// Writes the path without its hash; `None` if `name` is not mangled in this way.
pub(super) fn write(name: &str, out: &mut dyn Write) -> Option<()> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut is_first = true;
    loop {
        let (length, more) = number(rest)?;
        let (segment, more) = more.split_at_checked(length)?;
        let is_last = more.starts_with('E');
        if is_last && is_hash(segment) {
            return Some(());
        }
        if !is_first {
            out.write_str("::").ok()?;
        }
        write_segment(segment, out)?;
        if is_last {
            return Some(());
        }
        (rest, is_first) = (more, false);
    }
}

fn is_hash(segment: &str) -> bool {
    segment
        .strip_prefix('h')
        .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn write_segment(segment: &str, out: &mut dyn Write) -> Option<()> {
    // A segment that starts with an escape sequence is preceded by an underscore.
    let mut rest = segment.strip_prefix('_').filter(|rest| rest.starts_with('$')).unwrap_or(segment);
    while let Some(first) = rest.chars().next() {
        if let Some(more) = rest.strip_prefix("..") {
            out.write_str("::").ok()?;
            rest = more;
        } else if let Some((unescaped, more)) =
            ESCAPES.iter().find_map(|(from, to)| Some((to, rest.strip_prefix(from)?)))
        {
            out.write_str(unescaped).ok()?;
            rest = more;
        } else if let Some((unescaped, more)) = code_point(rest) {
            out.write_char(unescaped).ok()?;
            rest = more;
        } else {
            out.write_char(first).ok()?;
            rest = rest.get(first.len_utf8()..)?;
        }
    }
    Some(())
}

/// Parses the escape sequence of a code point, such as `$u7b$`.
fn code_point(rest: &str) -> Option<(char, &str)> {
    let (number, more) = rest.strip_prefix("$u")?.split_once('$')?;
    let unescaped = char::from_u32(u32::from_str_radix(number, 16).ok()?)?;
    (!unescaped.is_control()).then_some((unescaped, more))
}
