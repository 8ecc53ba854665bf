//! `_ZN`, the parts of the path with their lengths, a hash, `E`.

use core::fmt::Write;

use super::number;

/// Sequences that stand for signs which assemblers do not know.
const SIGNS: [(&str, &str); 8] = [
    ("$LT$", "<"),
    ("$GT$", ">"),
    ("$RF$", "&"),
    ("$BP$", "*"),
    ("$LP$", "("),
    ("$RP$", ")"),
    ("$SP$", "@"),
    ("$C$", ","),
];

/// Writes the path without its hash; `None` if `name` is no such name.
pub(super) fn write(name: &str, out: &mut dyn Write) -> Option<()> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut is_first = true;
    loop {
        let (length, more) = number(rest)?;
        let (part, more) = more.split_at_checked(length)?;
        let is_last = more.starts_with('E');
        if is_last && is_hash(part) {
            return Some(());
        }
        if !is_first {
            out.write_str("::").ok()?;
        }
        write_part(part, out)?;
        if is_last {
            return Some(());
        }
        (rest, is_first) = (more, false);
    }
}

fn is_hash(part: &str) -> bool {
    part.strip_prefix('h')
        .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn write_part(part: &str, out: &mut dyn Write) -> Option<()> {
    // A part that would start with a sign has an underscore before it.
    let mut rest = part.strip_prefix('_').filter(|rest| rest.starts_with('$')).unwrap_or(part);
    while let Some(first) = rest.chars().next() {
        if let Some(more) = rest.strip_prefix("..") {
            out.write_str("::").ok()?;
            rest = more;
        } else if let Some((sign, more)) =
            SIGNS.iter().find_map(|(from, to)| Some((to, rest.strip_prefix(from)?)))
        {
            out.write_str(sign).ok()?;
            rest = more;
        } else if let Some((sign, more)) = by_number(rest) {
            out.write_char(sign).ok()?;
            rest = more;
        } else {
            out.write_char(first).ok()?;
            rest = rest.get(first.len_utf8()..)?;
        }
    }
    Some(())
}

/// A sign as `$u7b$`, its number in hexadecimal.
fn by_number(rest: &str) -> Option<(char, &str)> {
    let (number, more) = rest.strip_prefix("$u")?.split_once('$')?;
    let sign = char::from_u32(u32::from_str_radix(number, 16).ok()?)?;
    (!sign.is_control()).then_some((sign, more))
}
