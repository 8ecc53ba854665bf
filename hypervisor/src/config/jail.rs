//! `--jail`: the user and the root folder of uhyve and its guest, once everything is open.

use std::path::PathBuf;
use std::str::FromStr;

/// Syntax of the option, for error messages.
const HELP: &str = "write UID:GID or UID:GID,CHROOT in numbers, such as 1000:1000";

/// User, group and root folder of a jail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jail {
    /// User ID.
    pub uid: u32,
    /// Group ID. There are no supplementary groups.
    pub gid: u32,
    /// Root folder, which becomes read-only; an empty one if `None`.
    pub root: Option<PathBuf>,
}

impl FromStr for Jail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ids, root) = text.split_once(',').map_or((text, None), |(ids, root)| (ids, Some(root)));
        let (uid, gid) =
            ids.split_once(':').ok_or_else(|| format!("`{ids}` are no user and group: {HELP}"))?;
        if root == Some("") {
            return Err(format!("there is no folder behind the comma: {HELP}"));
        }
        Ok(Self { uid: id("user", uid)?, gid: id("group", gid)?, root: root.map(PathBuf::from) })
    }
}

/// Parses an ID. Root's ID is refused, because a jail must take away root's privileges. -1 (2^32 - 1) is
/// refused, because it changes nothing (setresuid(2)).
fn id(kind: &str, text: &str) -> Result<u32, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| is_number).filter(|id| *id != u32::MAX);
    match id {
        Some(0) => Err(format!("{kind} 0 is root: write another, such as 1000")),
        Some(id) => Ok(id),
        None => Err(format!("`{text}` is no ID of a {kind}: {HELP}")),
    }
}

#[cfg(test)]
mod tests {
    use super::Jail;
    use proptest::prelude::*;

    #[test]
    fn ids_and_root_folder_are_parsed() {
        let jail = Jail { uid: 1000, gid: 4_294_967_294, root: None };
        assert_eq!("1000:4294967294".parse(), Ok(jail.clone()));
        let root = Some("/srv/a,b".into());
        assert_eq!("1000:4294967294,/srv/a,b".parse(), Ok(Jail { root, ..jail }));
    }

    #[test]
    fn invalid_jail_is_an_error_that_names_the_part() {
        for (text, part) in [
            ("", "`` are no user and group"),
            ("1000", "`1000` are no user and group"),
            ("web:1000", "`web` is no ID of a user"),
            ("1000:web", "`web` is no ID of a group"),
            ("1000:", "`` is no ID of a group"),
            ("+1:1", "`+1` is no ID of a user"),
            ("-1:1", "`-1` is no ID of a user"),
            ("1:4294967295", "`4294967295` is no ID of a group"),
            ("4294967296:1", "`4294967296` is no ID of a user"),
            ("0:1", "user 0 is root"),
            ("1:00", "group 0 is root"),
            ("1:1,", "no folder behind the comma"),
        ] {
            let error = text.parse::<Jail>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn parser_accepts_arbitrary_text(text: String) {
            let _: Result<Jail, String> = text.parse();
        }
    }
}
