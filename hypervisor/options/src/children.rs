//! The children of a process.

use std::fs;
use std::io;

/// Returns the children of a process, alive or not yet waited for: `/proc/PID/task/TID/children`, proc(5). The list is
/// complete only if none of them ends meanwhile and is waited for.
///
/// # Errors
///
/// There is no such process, or the kernel was built without `CONFIG_PROC_CHILDREN`.
pub fn children(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task"))? {
        let task = task?.path();
        match fs::read_to_string(task.join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<u32>)),
            // The thread has ended meanwhile.
            Err(_) if !task.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::children;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use std::process::{self, Command, Stdio};

    #[test]
    fn children_are_found_alive_or_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let is_found = |child| children(process::id()).unwrap().contains(&child);
        assert!(is_found(child.id()));
        assert!(children(child.id()).unwrap().is_empty());
        child.kill().unwrap();
        // The exit status stays, so that the child is not removed.
        waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(is_found(child.id()));
        child.wait().unwrap();
        assert!(!is_found(child.id()));
    }
}
