//! `/etc/hosts`: an address and its names in each line.

use alloc::vec::Vec;

use crate::configuration::words;
use crate::{Address, Families, LookupError, numeric};

/// Adds the addresses of a name in the text of `/etc/hosts` to `found`. Returns true if the text has the
/// name, even if only with addresses of another family.
///
/// # Errors
///
/// [`LookupError::Memory`].
pub fn find(
    text: &[u8],
    name: &[u8],
    families: Families,
    found: &mut Vec<Address>,
) -> Result<bool, LookupError> {
    let name = without_dot(name);
    let mut is_known = false;
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = words(line);
        let Some(address) = words.next().and_then(numeric::parse) else { continue };
        if !words.any(|word| without_dot(word).eq_ignore_ascii_case(name)) {
            continue;
        }
        is_known = true;
        if families.contains(&address.ip) && !found.contains(&address) {
            found.try_reserve(1)?;
            found.push(address);
        }
    }
    Ok(is_known)
}

/// A name without the dot that may end it.
pub(crate) fn without_dot(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::Families;
    use proptest::prelude::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    const TEXT: &str = "127.0.0.1\tlocalhost\n# 10.0.0.9 db\n10.0.0.1 db db.test # not.this\n::1 localhost\n\
                        10.0.0.2  other db\nfe80::1%2 db\nx db\n10.0.0.1 db\n\n 10.0.0.3 last";

    fn found(name: &str, families: Families) -> (bool, Vec<String>) {
        let mut found = Vec::new();
        let is_known = find(TEXT.as_bytes(), name.as_bytes(), families, &mut found).unwrap();
        (is_known, found.iter().map(|address| address.ip.to_string()).collect())
    }

    #[test]
    fn all_addresses_of_a_name_are_found_once() {
        assert_eq!(found("db", Families::V4).1, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(found("DB.", Families::Both).1, ["10.0.0.1", "10.0.0.2", "fe80::1"]);
        assert_eq!(found("last", Families::Both).1, ["10.0.0.3"]);
    }

    #[test]
    fn name_without_address_of_the_family_is_known() {
        assert_eq!(found("other", Families::V6), (true, Vec::new()));
    }

    #[test]
    fn comments_and_parts_of_names_are_no_names() {
        for name in ["not.this", "d", "db.tes", "x", "10.0.0.1", "#"] {
            assert_eq!(found(name, Families::Both), (false, Vec::new()), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: Vec<u8>, name: Vec<u8>) {
            let mut found = Vec::new();
            let is_known = find(&text, &name, Families::Both, &mut found).unwrap();
            prop_assert!(is_known || found.is_empty());
        }
    }
}
