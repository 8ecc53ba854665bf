//! The v0 mangling (RFC 2603): prefix notation with back references.
//!
//! The mangled name is parsed from the front, and printed while it is parsed. Backtraces need the path of a
//! function only, so generic arguments are parsed without being printed. The code runs in the fault handler,
//! on a small stack and without memory allocation: recursion and the number of steps are bounded, and a name
//! that exceeds a bound is printed as it is.

use core::fmt::Write;

use super::number;

/// Maximum nesting depth of paths and types: faults are reported on a small stack.
const MAX_DEPTH: usize = 32;

/// Maximum number of paths and types that are parsed: back references can make a name exponentially long.
const MAX_STEPS: usize = 500;

/// Writes the path without generic arguments; `None` if `name` is not mangled in this way.
pub(super) fn write(name: &str, out: &mut dyn Write) -> Option<()> {
    let text =
        name.strip_prefix("_R").filter(|text| text.starts_with(|first: char| first.is_ascii_uppercase()))?;
    Printer { text, at: 0, depth: 0, steps: 0, silent: 0, out }.path()
}

struct Printer<'a, 'o> {
    text: &'a str,
    /// Index of the next byte of the text.
    at: usize,
    depth: usize,
    steps: usize,
    /// Nesting depth of parts that are parsed without being printed.
    silent: usize,
    out: &'o mut dyn Write,
}

impl<'a> Printer<'a, '_> {
    fn print(&mut self, text: &str) -> Option<()> {
        if self.silent == 0 { self.out.write_str(text).ok() } else { Some(()) }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Consumes a byte if it is the next; returns whether it is.
    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Parses a path or type, which may be nested, with limits on depth and number.
    fn nested(&mut self, action: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.steps += 1;
        if self.depth == MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        self.depth += 1;
        action(self)?;
        self.depth -= 1;
        Some(())
    }

    fn silently(&mut self, action: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.silent += 1;
        action(self)?;
        self.silent -= 1;
        Some(())
    }

    /// Parses the target of a back reference, which must lie before the reference.
    fn back_reference(&mut self, action: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let reference = self.at - 1;
        let target = usize::try_from(self.base_62()?).ok().filter(|&target| target < reference)?;
        // Without printing, the target need not be parsed again.
        if self.silent > 0 {
            return Some(());
        }
        let after = core::mem::replace(&mut self.at, target);
        action(self)?;
        self.at = after;
        Some(())
    }

    /// Parses items up to `E`.
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        while !self.eat(b'E') {
            item(self)?;
        }
        Some(())
    }

    fn path(&mut self) -> Option<()> {
        self.nested(Self::path_inside)
    }

    fn path_inside(&mut self) -> Option<()> {
        match self.next()? {
            b'C' => {
                let (_, name) = self.identifier()?;
                // A crate has a name.
                if name.is_empty() { None } else { self.print(name) }
            }
            b'N' => self.nested_path(),
            b'M' => {
                self.silently(Self::impl_path)?;
                self.between("<", Self::parse_type, ">")
            }
            b'X' => {
                self.silently(Self::impl_path)?;
                self.as_trait()
            }
            b'Y' => self.as_trait(),
            b'I' => {
                self.path()?;
                self.silently(|printer| printer.list(Self::argument))
            }
            b'B' => self.back_reference(Self::path),
            _ => None,
        }
    }

    fn between(&mut self, start: &str, action: fn(&mut Self) -> Option<()>, end: &str) -> Option<()> {
        self.print(start)?;
        action(self)?;
        self.print(end)
    }

    fn as_trait(&mut self) -> Option<()> {
        self.between("<", Self::parse_type, " as ")?;
        self.between("", Self::path, ">")
    }

    fn impl_path(&mut self) -> Option<()> {
        self.disambiguator()?;
        self.path()
    }

    /// A nested path: namespace, parent path, identifier.
    fn nested_path(&mut self) -> Option<()> {
        let space = self.next()?;
        self.path()?;
        let (number, name) = self.identifier()?;
        match space {
            b'a'..=b'z' if name.is_empty() => Some(()),
            b'a'..=b'z' => {
                self.print("::")?;
                self.print(name)
            }
            b'C' => self.numbered("closure", name, number),
            b'S' => self.numbered("shim", name, number),
            b'A'..=b'Z' => self.numbered(char::from(space).encode_utf8(&mut [0; 4]), name, number),
            _ => None,
        }
    }

    /// A compiler-generated item, such as a closure, with its disambiguator.
    fn numbered(&mut self, what: &str, name: &str, number: u64) -> Option<()> {
        if self.silent > 0 {
            return Some(());
        }
        let colon = if name.is_empty() { "" } else { ":" };
        write!(self.out, "::{{{what}{colon}{name}#{number}}}").ok()
    }

    /// A type.
    fn parse_type(&mut self) -> Option<()> {
        self.nested(Self::type_inside)
    }

    fn type_inside(&mut self) -> Option<()> {
        let byte = self.next()?;
        if let Some(name) = basic_type(byte) {
            return self.print(name);
        }
        match byte {
            b'A' => {
                self.between("[", Self::parse_type, "; _]")?;
                self.silently(Self::constant)
            }
            b'S' => self.between("[", Self::parse_type, "]"),
            b'T' => {
                self.print("(..)")?;
                self.silently(|printer| printer.list(Self::parse_type))
            }
            b'R' | b'Q' => {
                if self.eat(b'L') {
                    self.base_62()?;
                }
                self.between(if byte == b'R' { "&" } else { "&mut " }, Self::parse_type, "")
            }
            b'P' => self.between("*const ", Self::parse_type, ""),
            b'O' => self.between("*mut ", Self::parse_type, ""),
            b'F' => {
                self.print("fn(..)")?;
                self.silently(Self::signature)
            }
            b'D' => self.bounds(),
            b'B' => self.back_reference(Self::parse_type),
            _ => {
                self.at -= 1;
                self.path()
            }
        }
    }

    fn signature(&mut self) -> Option<()> {
        self.binder()?;
        self.eat(b'U');
        if self.eat(b'K') && !self.eat(b'C') {
            self.identifier()?;
        }
        self.list(Self::parse_type)?;
        self.parse_type()
    }

    /// The bounds of a `dyn` type: traits with associated types, and a lifetime.
    fn bounds(&mut self) -> Option<()> {
        self.binder()?;
        self.print("dyn ")?;
        let mut is_first = true;
        self.list(|printer| {
            printer.print(if is_first { "" } else { " + " })?;
            is_first = false;
            printer.path()?;
            while printer.eat(b'p') {
                printer.identifier()?;
                printer.silently(Self::parse_type)?;
            }
            Some(())
        })?;
        if !self.eat(b'L') {
            return None;
        }
        self.base_62().map(drop)
    }

    fn binder(&mut self) -> Option<()> {
        if self.eat(b'G') { self.base_62().map(drop) } else { Some(()) }
    }

    /// A generic argument.
    fn argument(&mut self) -> Option<()> {
        if self.eat(b'L') {
            self.base_62().map(drop)
        } else if self.eat(b'K') {
            self.constant()
        } else {
            self.parse_type()
        }
    }

    /// A constant of integer, character or boolean type; other types are not supported.
    fn constant(&mut self) -> Option<()> {
        match self.next()? {
            b'p' => Some(()),
            b'B' => self.base_62().map(drop),
            byte if basic_type(byte).is_some() => {
                while self.next()? != b'_' {}
                Some(())
            }
            _ => None,
        }
    }

    fn disambiguator(&mut self) -> Option<u64> {
        if self.eat(b's') { self.base_62()?.checked_add(1) } else { Some(0) }
    }

    /// An identifier: its disambiguator and its name.
    fn identifier(&mut self) -> Option<(u64, &'a str)> {
        let disambiguator = self.disambiguator()?;
        // Non-ASCII names are in Punycode, and stay encoded.
        self.eat(b'u');
        let (length, rest) = number(self.text.get(self.at..)?)?;
        // An underscore separates the length from a name that starts with a digit or an underscore.
        let (name, rest) = rest.strip_prefix('_').unwrap_or(rest).split_at_checked(length)?;
        self.at = self.text.len() - rest.len();
        Some((disambiguator, name))
    }

    /// A base-62 number, terminated by an underscore; an underscore alone is 0.
    fn base_62(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        let mut digits = 0;
        loop {
            let digit = match self.next()? {
                b'_' => return if digits == 0 { Some(0) } else { value.checked_add(1) },
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'z' => digit - b'a' + 10,
                digit @ b'A'..=b'Z' => digit - b'A' + 36,
                _ => return None,
            };
            value = value.checked_mul(62)?.checked_add(digit.into())?;
            digits += 1;
        }
    }
}

/// Basic types, which are single letters.
fn basic_type(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'a' => "i8",
        b'b' => "bool",
        b'c' => "char",
        b'd' => "f64",
        b'e' => "str",
        b'f' => "f32",
        b'h' => "u8",
        b'i' => "isize",
        b'j' => "usize",
        b'l' => "i32",
        b'm' => "u32",
        b'n' => "i128",
        b'o' => "u128",
        b'p' => "_",
        b's' => "i16",
        b't' => "u16",
        b'u' => "()",
        b'v' => "...",
        b'x' => "i64",
        b'y' => "u64",
        b'z' => "!",
        _ => return None,
    })
}
