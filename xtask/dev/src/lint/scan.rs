//! A scanner of Rust files that counts lines of code and uses of `unsafe`. It recognizes comments, literals
//! and test modules.

/// Counts of lines and of uses of `unsafe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// Lines with code, without tests.
    pub(super) lines: usize,
    /// `unsafe { .. }`.
    pub(super) blocks: usize,
    /// `unsafe impl`.
    pub(super) impls: usize,
    /// `unsafe fn` with a name. Function types do not count.
    pub(super) functions: usize,
    /// `#[unsafe(..)]`, `unsafe trait`, `unsafe extern { .. }`, and also `global_asm!`, although it needs no
    /// `unsafe`.
    pub(super) other: usize,
}

impl Code {
    /// Returns true if the code could violate memory safety.
    pub(super) const fn uses_unsafe(&self) -> bool {
        self.blocks + self.impls + self.functions + self.other > 0
    }

    /// Adds the counts of more code.
    pub(super) fn add(&mut self, more: Self) {
        self.lines += more.lines;
        self.blocks += more.blocks;
        self.impls += more.impls;
        self.functions += more.functions;
        self.other += more.other;
    }
}

/// Attributes of items that exist only in tests.
const TEST_MARKS: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(feature = \"sample\", test))]"];

/// Counts lines of code and uses of `unsafe` of a file.
pub(super) fn measure(text: &str) -> Code {
    let (code, _) = without_tests(text);
    let lines = code.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    let tokens = tokens(&code);
    let mut found = Code { lines, ..Code::default() };
    for (index, &token) in tokens.iter().enumerate() {
        let after = &tokens[index + 1..];
        if token == b"global_asm" && after.first() == Some(&&b"!"[..]) {
            found.other += 1;
        }
        if token == b"unsafe" {
            count_unsafe(&mut found, after);
        }
    }
    found
}

/// Counts a use of `unsafe`. The tokens after it determine the kind.
fn count_unsafe(found: &mut Code, after: &[&[u8]]) {
    // Skips `extern` and the name of the calling convention. Only the quotes of that literal are left.
    let passed = after.iter().take_while(|&&token| token == b"extern" || token.starts_with(b"\"")).count();
    match (after.get(passed), after.get(passed + 1)) {
        (Some(&b"{"), _) if passed == 0 => found.blocks += 1,
        (Some(&b"impl"), _) => found.impls += 1,
        (Some(&b"fn"), Some(&b"(")) => {}
        (Some(&b"fn"), _) => found.functions += 1,
        _ => found.other += 1,
    }
}

/// Returns the paths, or beginnings of paths, of the test modules that the file at `path` declares with `mod
/// NAME;`.
pub(super) fn test_files(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let (_, names) = without_tests(text);
    names.iter().flat_map(|name| ["", "/"].map(|end| format!("{folder}/{name}{end}"))).map(ending).collect()
}

/// Returns the path of a folder unchanged, and the path of a module's file with the extension.
fn ending(path: String) -> String {
    if path.ends_with('/') { path } else { path + ".rs" }
}

/// Returns the code of a file, with spaces in place of comments and tests. Lines and columns stay the same.
pub(super) fn code_without_tests(text: &str) -> Vec<u8> {
    without_tests(text).0
}

/// Returns the code of a file as [`code_without_tests`] does, and the names of test modules that are in
/// separate files.
fn without_tests(text: &str) -> (Vec<u8>, Vec<String>) {
    let mut code = code_only(text);
    let mut names = Vec::new();
    let mut at = 0;
    while at < code.len() {
        // `unsafe` in a comment or a literal does not count.
        let rest = &text.as_bytes()[at..];
        let mark = TEST_MARKS.iter().find(|mark| code[at] == b'#' && rest.starts_with(mark.as_bytes()));
        let Some(mark) = mark else {
            at += 1;
            continue;
        };
        let start = at + mark.len();
        let end = start + item_length(&code[start..]);
        if let [.., b"mod", name, b";"] = tokens(&code[start..end])[..] {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        blank(&mut code[at..end], b' ');
        at = end;
    }
    (code, names)
}

/// Returns the length of the item at the start of `code`: up to its `;`, or to the closing brace of its body.
fn item_length(code: &[u8]) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in code.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                // An item such as `use a::{b, c};` does not end with its braces.
                let goes_on = code[index + 1..].trim_ascii_start().starts_with(b";");
                if depth == 0 && !goes_on {
                    return index + 1;
                }
            }
            b';' if depth == 0 => return index + 1,
            _ => {}
        }
    }
    code.len()
}

/// Splits code into words and single characters.
fn tokens(code: &[u8]) -> Vec<&[u8]> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_ascii_start();
    while !rest.is_empty() {
        let length = word_length(rest).max(1);
        let (token, more) = rest.split_at(length);
        // All quotes of a literal are one token.
        let quotes = if token == b"\"" { more.iter().take_while(|&&byte| byte == b'"').count() } else { 0 };
        tokens.push(&rest[..length + quotes]);
        rest = more[quotes..].trim_ascii_start();
    }
    tokens
}

/// The kind of a piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// Returns the text with comments replaced by spaces and literals by quotes; lines and columns stay the same.
pub(super) fn code_only(text: &str) -> Vec<u8> {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        let (piece, length) = piece(&code[at..]);
        let end = (at + length).min(code.len());
        match piece {
            Piece::Code => {}
            Piece::Comment => blank(&mut code[at..end], b' '),
            Piece::Literal => blank(&mut code[at..end], b'"'),
        }
        at = end;
    }
    code
}

fn blank(bytes: &mut [u8], with: u8) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = with);
}

/// Returns the kind and the length of the piece at the start of `rest`.
fn piece(rest: &[u8]) -> (Piece, usize) {
    match rest {
        [b'/', b'/', ..] => (Piece::Comment, find(rest, b"\n")),
        [b'/', b'*', ..] => (Piece::Comment, block_comment_length(rest)),
        [b'"', ..] => (Piece::Literal, quoted_length(rest, b'"')),
        // A character literal has an escaped character, or one character between quotes. Any other quote
        // begins a lifetime.
        [b'\'', b'\\', ..] => (Piece::Literal, quoted_length(rest, b'\'')),
        [b'\'', first, ..] => match rest.get(1 + character_length(*first)) {
            Some(b'\'') => (Piece::Literal, 2 + character_length(*first)),
            _ => (Piece::Code, 1),
        },
        _ => {
            let word = word_length(rest);
            match raw_string_length(&rest[..word], &rest[word..]) {
                Some(length) => (Piece::Literal, word + length),
                None => (Piece::Code, word.max(1)),
            }
        }
    }
}

/// Returns the length of the word at the start of `rest`, in bytes.
fn word_length(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// Returns the length of the UTF-8 character with this first byte.
const fn character_length(first: u8) -> usize {
    match first.leading_ones() {
        0 => 1,
        ones => ones as usize,
    }
}

/// Returns the length of a literal from its opening to its closing quote.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += if byte == b'\\' { 2 } else { 1 };
        if byte == quote {
            break;
        }
    }
    at
}

/// Returns the length of `#"..."#` after the prefix of a raw string.
fn raw_string_length(word: &[u8], rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
    let is_raw = [&b"r"[..], b"br", b"cr"].contains(&word) && rest.get(hashes) == Some(&b'"');
    let end = [&b"\""[..], &rest[..hashes]].concat();
    is_raw.then(|| hashes + 1 + find(&rest[hashes + 1..], &end) + end.len())
}

/// Returns the length of a block comment, including nested comments.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        let (step, change) = match &rest[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step;
        depth = depth.saturating_add_signed(change);
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the position of the first occurrence of `wanted`, or the length of `rest`.
fn find(rest: &[u8], wanted: &[u8]) -> usize {
    rest.windows(wanted.len()).position(|window| window == wanted).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::{Code, measure, test_files};

    #[test]
    fn measure_counts_lines_with_code() {
        let text = "//! Doc.\n\n/* a\n /* b */ c\n*/ fn a() {} // d\nlet s = \"two\nlines // no comment\";\n";
        assert_eq!(measure(text).lines, 3);
        assert_eq!(measure(""), Code::default());
    }

    #[test]
    fn measure_counts_each_kind_of_unsafe() {
        let text = "
            unsafe impl Send for A {}
            unsafe fn a() { unsafe { b() } }
            pub unsafe extern \"C\" fn c(call: unsafe extern \"C\" fn(u8)) {}
            unsafe extern \"C\" { fn d(); }
            #[unsafe(no_mangle)]
            unsafe trait E {}
            core::arch::global_asm!(\"nop\");
        ";
        let expected = Code { lines: 7, blocks: 1, impls: 1, functions: 2, other: 4 };
        assert_eq!(measure(text), expected);
        assert!(expected.uses_unsafe() && !measure("#![forbid(unsafe_code)]").uses_unsafe());
    }

    #[test]
    fn measure_skips_comments_and_literals() {
        for text in [
            "// unsafe {\n",
            "/* unsafe { /* } */ unsafe { */",
            "let a = \"unsafe { \\\" unsafe {\";",
            "let a = r#\"unsafe { \" unsafe {\"#;",
            "let a = br##\"unsafe \"# {\"##;",
            "let a = ('\"', '\\'', b'\"', 'ü', \"unsafe {\");",
            "fn not_unsafe() { unsafely() }",
        ] {
            assert!(!measure(text).uses_unsafe(), "{text}");
        }
        for text in [
            "let a = '\"'; unsafe { b() } // \"",
            "fn a<'a>(b: &'a u8) { unsafe { c('x') } }",
            "let r#type = 1; unsafe { a(r\"\\\") }",
        ] {
            assert_eq!(measure(text).blocks, 1, "{text}");
        }
    }

    #[test]
    fn measure_skips_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { unsafe { c('}') } }\n}\n\
                    #[cfg(test)]\nuse d::{e, f};\n#[cfg(test)]\n#[expect(g, reason = \"h\")]\npub(crate) mod i;\nfn j() {}\n";
        assert_eq!(measure(text), Code { lines: 2, ..Code::default() });
        assert_eq!(test_files("a/src/lib.rs", text), ["a/src/i.rs", "a/src/i/"]);
        assert_eq!(test_files("a/src/k.rs", text), ["a/src/k/i.rs", "a/src/k/i/"]);
        assert!(test_files("a/src/lib.rs", "// #[cfg(test)] mod l;").is_empty());
    }

    #[test]
    fn measure_accepts_truncated_files() {
        for text in
            ["/*", "\"a", "r#\"a", "'", "'\\", "#[cfg(test)]", "#[cfg(test)] mod a {", "unsafe", "\"\\"]
        {
            let _: Code = measure(text);
        }
    }
}
