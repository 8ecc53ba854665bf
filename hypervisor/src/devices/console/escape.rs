//! Visible forms of control characters, for output to a terminal.
//!
//! A guest's output is untrusted, and a terminal executes control sequences: they may set its title, write to
//! the clipboard, overwrite earlier lines, or make the terminal send input as if the user had typed it.
//! [`Escaper`] is a filter between the guest and the terminal. It splits the output into characters and
//! sequences, passes text and a few harmless sequences, and replaces all others by text that shows them.
//! Output arrives in parts, so an incomplete character or sequence at the end of a part is held back until
//! the next part.

use std::fmt::Write;
use std::str;

/// Maximum length in bytes of a control sequence that is passed through.
const MAX_SEQUENCE: usize = 32;

/// Final bytes of the control sequences that are passed through (ECMA-48 §8.3): Select Graphic Rendition,
/// which sets colours, and Erase in Line.
const PERMITTED: [u8; 2] = *b"mK";

/// Sequence that resets colours and other attributes.
const RESET: &[u8] = b"\x1b[m";

/// Filter that replaces control characters by a visible form: `^[` for ESC, `\u{9b}` for CSI as one
/// character, `\xff` for a byte that is not UTF-8. It passes text in UTF-8, newlines, carriage returns, tabs,
/// and sequences that set colours or erase a line.
#[derive(Debug, Default)]
pub(super) struct Escaper {
    /// Start of a character or a sequence whose end has not arrived yet.
    pending: Vec<u8>,
    /// True if a sequence has set colours or other attributes that are still in effect.
    has_attributes: bool,
}

/// A character, a sequence, or a run of plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Text of this number of bytes, which is passed through.
    Text(usize),
    /// Control character of one byte.
    Control(u8),
    /// Control character above ASCII (C1, two bytes).
    WideControl(char),
    /// Byte that is not UTF-8.
    Invalid(u8),
}

impl Escaper {
    /// Returns the visible form of the pending bytes of the last call and `bytes`. An incomplete character or
    /// sequence at the end stays pending.
    pub(super) fn escape(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let (mut visible, mut rest) = (Vec::with_capacity(bytes.len()), self.pending.as_slice());
        while let Some((text, after)) = next(rest).and_then(|token| {
            let (consumed, after) = rest.split_at_checked(token.length())?;
            self.has_attributes = sets_attributes(consumed).unwrap_or(self.has_attributes);
            Some((token.visible(consumed), after))
        }) {
            visible.extend(text);
            rest = after;
        }
        self.pending = rest.to_vec();
        visible
    }

    /// Ends the output: returns the visible form of the pending bytes, and a sequence that resets colours if
    /// any are set.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut visible = Vec::new();
        for byte in std::mem::take(&mut self.pending) {
            let is_text = matches!(byte, b' '..=b'~');
            let token = match byte {
                _ if is_text => Token::Text(1),
                ..0x80 => Token::Control(byte),
                _ => Token::Invalid(byte),
            };
            visible.extend(token.visible(&[byte]));
        }
        if std::mem::take(&mut self.has_attributes) {
            visible.extend(RESET);
        }
        visible
    }
}

/// Returns true if attributes may be in effect after the sequence `output`, which sets or resets them; `None`
/// if `output` is not such a sequence.
fn sets_attributes(output: &[u8]) -> Option<bool> {
    let parameters = output.strip_prefix(b"\x1b[")?.strip_suffix(b"m")?;
    // An empty parameter is 0, and resets all attributes. A 0 after other parameters may be the number of a
    // colour.
    Some(!parameters.iter().all(|byte| b"0;".contains(byte)))
}

impl Token {
    const fn length(self) -> usize {
        match self {
            Self::Text(length) => length,
            Self::Control(_) | Self::Invalid(_) => 1,
            Self::WideControl(character) => character.len_utf8(),
        }
    }

    fn visible(self, text: &[u8]) -> Vec<u8> {
        let mut form = String::new();
        // Writing to a string does not fail.
        let _: std::fmt::Result = match self {
            Self::Text(_) => return text.to_vec(),
            // `^@` to `^_`, and `^?` for DEL.
            Self::Control(byte) => write!(form, "^{}", char::from(byte ^ 0x40)),
            Self::WideControl(character) => write!(form, "{}", character.escape_unicode()),
            Self::Invalid(byte) => write!(form, "\\x{byte:02x}"),
        };
        form.into_bytes()
    }
}

/// Returns the first token of `bytes`; `None` if `bytes` is empty, or the token is incomplete.
fn next(bytes: &[u8]) -> Option<Token> {
    match *bytes.first()? {
        b'\n' | b'\r' | b'\t' | b' '..=b'~' => Some(Token::Text(1)),
        0x1b => control_sequence(bytes),
        byte @ (..0x80) => Some(Token::Control(byte)),
        byte => character(bytes, byte),
    }
}

/// Returns the token at an ESC: a control sequence, if it is permitted, otherwise the ESC alone.
fn control_sequence(bytes: &[u8]) -> Option<Token> {
    let escape = Some(Token::Control(0x1b));
    if *bytes.get(1)? != b'[' {
        return escape;
    }
    let is_parameter = |byte: &u8| matches!(byte, b'0'..=b';');
    let end = 2 + bytes.iter().skip(2).take_while(|byte| is_parameter(byte)).count();
    if end >= MAX_SEQUENCE {
        return escape;
    }
    // `?`: without its final byte, the sequence is incomplete.
    let is_permitted = PERMITTED.contains(bytes.get(end)?);
    if is_permitted { Some(Token::Text(end + 1)) } else { escape }
}

/// Returns the token of a character above ASCII, whose first byte is `first`.
fn character(bytes: &[u8], first: u8) -> Option<Token> {
    let start = bytes.get(..4).unwrap_or(bytes);
    let (valid, error) = match str::from_utf8(start) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = start.get(..error.valid_up_to()).unwrap_or_default();
            (str::from_utf8(valid).unwrap_or_default(), Some(error))
        }
    };
    match (valid.chars().next(), error.map(|error| error.error_len())) {
        (Some(character), _) if character.is_control() => Some(Token::WideControl(character)),
        (Some(character), _) => Some(Token::Text(character.len_utf8())),
        (None, Some(None)) => None,
        (None, _) => Some(Token::Invalid(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::Escaper;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn escape(text: impl AsRef<[u8]>) -> String {
        String::from_utf8(Escaper::default().escape(text.as_ref())).unwrap()
    }

    #[test]
    fn text_colours_and_erasing_pass_unchanged() {
        for text in
            ["", "a\tb\r\n", "ä€😀", "\x1b[31;1mred\x1b[0m", "\r\x1b[2K50 %", "\x1b[m", "\x1b[38:5:1m"]
        {
            assert_eq!(escape(text), text);
        }
    }

    #[test]
    fn attacks_on_terminals_become_visible() {
        for (attack, visible) in [
            // Title, clipboard, a report that the terminal sends as input, cursor, screen, reset, bell.
            (&b"\x1b]0;title\x07"[..], "^[]0;title^G"),
            (b"\x1b]52;c;cm0gLXJm\x1b\\", "^[]52;c;cm0gLXJm^[\\"),
            (b"\x1b[6n\x1bP$qm\x1b\\", "^[[6n^[P$qm^[\\"),
            (b"\x1b[1A\x1b[2J\x1bc", "^[[1A^[[2J^[c"),
            (b"\x1b[?25l\x1b[>4;1m", "^[[?25l^[[>4;1m"),
            (b"\x00\x08\x7f\x07", "^@^H^?^G"),
            // CSI as a C1 character, in UTF-8 and as a byte.
            (b"\xc2\x9b6n", "\\u{9b}6n"),
            (b"\x9b6n\xff\xc3(", "\\x9b6n\\xff\\xc3("),
        ] {
            assert_eq!(escape(attack), visible);
        }
        let long = format!("\x1b[{}m", "1;".repeat(100));
        assert!(escape(long).starts_with("^[[1;1;"));
    }

    #[test]
    fn incomplete_end_becomes_visible_and_colours_are_reset() {
        for (text, end) in [
            (&b"text"[..], &b""[..]),
            (b"\x1b", b"^["),
            (b"a\x1b[31", b"^[[31"),
            (b"\xe2\x82", b"\\xe2\\x82"),
            (b"\x1b[31mred", b"\x1b[m"),
            (b"\x1b[1;31mred\x1b[0mplain", b""),
            (b"\x1b[31mred\x1b[mplain\x1b[K", b""),
            (b"\x1b[0;31m", b"\x1b[m"),
            (b"\x1b[31m\x1b[0;0m", b""),
            // The first of 256 colours.
            (b"\x1b[38;5;0m", b"\x1b[m"),
            (b"\x1b[31m\x1b[", b"^[[\x1b[m"),
        ] {
            let mut escaper = Escaper::default();
            escaper.escape(text);
            assert_eq!(escaper.finish(), end, "{:?}", text.escape_ascii().to_string());
            assert_eq!(escaper.finish(), b"", "once");
        }
    }

    /// Returns true if a text has no control characters except those of permitted characters and sequences.
    fn is_harmless(text: &str) -> bool {
        text.split('\x1b').enumerate().all(|(index, part)| {
            let sequence =
                part.strip_prefix('[').map(|rest| rest.trim_start_matches(|c| ('0'..=';').contains(&c)));
            let is_sequence = sequence.is_some_and(|rest| rest.starts_with(['m', 'K']));
            let is_text = !part.contains(|c: char| c.is_control() && !"\n\r\t".contains(c));
            is_text && (index == 0 || is_sequence)
        })
    }

    fn fragment() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            vec(any::<u8>(), 0..8),
            "\\x1b\\[[0-9;?]{0,3}[mKJ]?".prop_map(String::into_bytes),
            "\\PC{0,3}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn visible_form_is_harmless_wherever_writes_end(fragments in vec(fragment(), 0..20)) {
            let mut escaper = Escaper::default();
            let parts: Vec<u8> = fragments.iter().flat_map(|bytes| escaper.escape(bytes)).collect();
            let whole = escape(fragments.concat());
            prop_assert!(is_harmless(&whole), "{:?}", whole);
            prop_assert_eq!(whole.as_bytes(), parts);
            let end = String::from_utf8(escaper.finish()).unwrap();
            prop_assert!(is_harmless(&end), "{:?}", end);
        }
    }
}
