//! State of a process in a jail (`uhyve --jail`), as /proc shows it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Value of `--jail` without a root folder: IDs that no user of the host has.
pub(crate) const IDS: &str = "61234:61235";

/// Returns true if tests can enter a jail on this host. Otherwise prints why they are skipped.
pub(crate) fn is_possible() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--ipc", "--uts", "--cgroup", "--pid", "--fork", "true"]);
    let is_root = rustix::process::geteuid().is_root();
    let status = unshare.stderr(Stdio::null()).status();
    let is_possible = is_root && status.is_ok_and(|status| status.success());
    if !is_possible {
        println!("skipped: only root enters a jail, where there are namespaces");
    }
    is_possible
}

/// Returns the words of a field of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Vec<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{name}: {status}")).split_whitespace().collect()
}

/// Asserts that all threads of a process have the user of [`IDS`] and no privileges, that the process has
/// left the host's namespaces, and that its root folder has these files and is its only mount.
pub(crate) fn check(process: i32, files: &[&str]) {
    let folder = format!("/proc/{process}");
    for task in fs::read_dir(format!("{folder}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert_eq!(field(&status, "Uid"), ["61234"; 4]);
        assert_eq!(field(&status, "Gid"), ["61235"; 4]);
        assert!(field(&status, "Groups").is_empty(), "{status}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&status, set), ["0000000000000000"], "{set}");
        }
        assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), (vec!["1"], vec!["2"]));
    }
    for namespace in ["mnt", "net", "ipc", "uts", "cgroup"] {
        assert!(has_own_namespace(process, namespace), "{namespace}");
    }
    assert!(!has_own_namespace(process, "user"), "a user namespace would give capabilities");
    let root = fs::read_dir(Path::new(&folder).join("root")).unwrap();
    assert_eq!(root.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), files);
    let mounts = fs::read_to_string(format!("{folder}/mountinfo")).unwrap();
    let words: Vec<_> = mounts.split_whitespace().collect();
    assert_eq!((mounts.lines().count(), words[4]), (1, "/"), "{mounts}");
    assert!(words[5].starts_with("ro,nosuid,nodev,noexec"), "{mounts}");
}

/// Returns true if `process` is in another namespace of this kind than the calling process.
pub(crate) fn has_own_namespace(process: i32, kind: &str) -> bool {
    let link = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).unwrap();
    link(&process.to_string()) != link("self")
}
