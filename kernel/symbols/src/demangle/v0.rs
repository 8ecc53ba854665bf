//! The names of RFC 2603, "v0": prefix notation, in which anything may refer back to what was there before.

use core::fmt::Write;

use super::number;

/// How deep paths and types may lie in each other: the stack on which faults are reported is small.
const MAX_DEPTH: usize = 32;

/// How many paths and types a name may have in all. References back could make it endless.
const MAX_STEPS: usize = 500;

/// Writes the path without generic arguments; `None` if `name` is no such name.
pub(super) fn write(name: &str, out: &mut dyn Write) -> Option<()> {
    let text =
        name.strip_prefix("_R").filter(|text| text.starts_with(|first: char| first.is_ascii_uppercase()))?;
    Printer { text, at: 0, depth: 0, steps: 0, silent: 0, out }.path()
}

struct Printer<'a, 'o> {
    text: &'a str,
    /// Where in the text the next sign is.
    at: usize,
    depth: usize,
    steps: usize,
    /// Nothing is written while it is not zero.
    silent: usize,
    out: &'o mut dyn Write,
}

impl<'a> Printer<'a, '_> {
    fn print(&mut self, text: &str) -> Option<()> {
        if self.silent == 0 { self.out.write_str(text).ok() } else { Some(()) }
    }

    fn next(&mut self) -> Option<u8> {
        let sign = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(sign)
    }

    /// Takes a sign if it is the next.
    fn takes(&mut self, sign: u8) -> bool {
        let is_next = self.text.as_bytes().get(self.at) == Some(&sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// Has `action` take something that may contain others of its kind.
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

    /// Has `action` take what stands where a reference points to, which is before the reference itself.
    fn referred(&mut self, action: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let reference = self.at - 1;
        let target = usize::try_from(self.base_62()?).ok().filter(|&target| target < reference)?;
        // Where nothing is written, nothing need be read again.
        if self.silent > 0 {
            return Some(());
        }
        let after = core::mem::replace(&mut self.at, target);
        action(self)?;
        self.at = after;
        Some(())
    }

    /// Takes items up to `E`.
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        while !self.takes(b'E') {
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
                // No crate is without a name.
                if name.is_empty() { None } else { self.print(name) }
            }
            b'N' => self.member(),
            b'M' => {
                self.silently(Self::impl_path)?;
                self.between("<", Self::kind, ">")
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
            b'B' => self.referred(Self::path),
            _ => None,
        }
    }

    fn between(&mut self, start: &str, action: fn(&mut Self) -> Option<()>, end: &str) -> Option<()> {
        self.print(start)?;
        action(self)?;
        self.print(end)
    }

    fn as_trait(&mut self) -> Option<()> {
        self.between("<", Self::kind, " as ")?;
        self.between("", Self::path, ">")
    }

    fn impl_path(&mut self) -> Option<()> {
        self.disambiguator()?;
        self.path()
    }

    /// A path's last part and what it is in.
    fn member(&mut self) -> Option<()> {
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

    /// Something that the compiler made, with its number.
    fn numbered(&mut self, what: &str, name: &str, number: u64) -> Option<()> {
        if self.silent > 0 {
            return Some(());
        }
        let colon = if name.is_empty() { "" } else { ":" };
        write!(self.out, "::{{{what}{colon}{name}#{number}}}").ok()
    }

    /// A type.
    fn kind(&mut self) -> Option<()> {
        self.nested(Self::kind_inside)
    }

    fn kind_inside(&mut self) -> Option<()> {
        let sign = self.next()?;
        if let Some(name) = basic_type(sign) {
            return self.print(name);
        }
        match sign {
            b'A' => {
                self.between("[", Self::kind, "; _]")?;
                self.silently(Self::constant)
            }
            b'S' => self.between("[", Self::kind, "]"),
            b'T' => {
                self.print("(..)")?;
                self.silently(|printer| printer.list(Self::kind))
            }
            b'R' | b'Q' => {
                if self.takes(b'L') {
                    self.base_62()?;
                }
                self.between(if sign == b'R' { "&" } else { "&mut " }, Self::kind, "")
            }
            b'P' => self.between("*const ", Self::kind, ""),
            b'O' => self.between("*mut ", Self::kind, ""),
            b'F' => {
                self.print("fn(..)")?;
                self.silently(Self::signature)
            }
            b'D' => self.bounds(),
            b'B' => self.referred(Self::kind),
            _ => {
                self.at -= 1;
                self.path()
            }
        }
    }

    fn signature(&mut self) -> Option<()> {
        self.binder()?;
        self.takes(b'U');
        if self.takes(b'K') && !self.takes(b'C') {
            self.identifier()?;
        }
        self.list(Self::kind)?;
        self.kind()
    }

    /// What a `dyn` type implements, with its associated types, and how long it lives.
    fn bounds(&mut self) -> Option<()> {
        self.binder()?;
        self.print("dyn ")?;
        let mut is_first = true;
        self.list(|printer| {
            printer.print(if is_first { "" } else { " + " })?;
            is_first = false;
            printer.path()?;
            while printer.takes(b'p') {
                printer.identifier()?;
                printer.silently(Self::kind)?;
            }
            Some(())
        })?;
        if !self.takes(b'L') {
            return None;
        }
        self.base_62().map(drop)
    }

    fn binder(&mut self) -> Option<()> {
        if self.takes(b'G') { self.base_62().map(drop) } else { Some(()) }
    }

    /// A generic argument.
    fn argument(&mut self) -> Option<()> {
        if self.takes(b'L') {
            self.base_62().map(drop)
        } else if self.takes(b'K') {
            self.constant()
        } else {
            self.kind()
        }
    }

    /// A number, a character or a truth value; constants of other types are given up.
    fn constant(&mut self) -> Option<()> {
        match self.next()? {
            b'p' => Some(()),
            b'B' => self.base_62().map(drop),
            sign if basic_type(sign).is_some() => {
                while self.next()? != b'_' {}
                Some(())
            }
            _ => None,
        }
    }

    fn disambiguator(&mut self) -> Option<u64> {
        if self.takes(b's') { self.base_62()?.checked_add(1) } else { Some(0) }
    }

    /// A number that tells equal names apart, and the name.
    fn identifier(&mut self) -> Option<(u64, &'a str)> {
        let disambiguator = self.disambiguator()?;
        // Letters beyond ASCII are in Punycode and stay so.
        self.takes(b'u');
        let (length, rest) = number(self.text.get(self.at..)?)?;
        // An underscore keeps the length and a name that starts with a digit or an underscore apart.
        let (name, rest) = rest.strip_prefix('_').unwrap_or(rest).split_at_checked(length)?;
        self.at = self.text.len() - rest.len();
        Some((disambiguator, name))
    }

    /// Digits up to an underscore, which alone is zero.
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

/// The types that are single letters.
fn basic_type(sign: u8) -> Option<&'static str> {
    Some(match sign {
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
