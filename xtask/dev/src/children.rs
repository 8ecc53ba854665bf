//! The children of a process.

use std::fs;
use std::io::{self, ErrorKind};

/// Returns the children of a process, alive or not yet waited for. Reads `/proc/PID/task/TID/children`, or
/// searches all processes if the kernel was built without `CONFIG_PROC_CHILDREN` (proc(5)). The list is
/// complete only if no child is reaped meanwhile.
///
/// # Errors
///
/// Fails if there is no such process, or if /proc cannot be read.
pub(crate) fn children(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task"))? {
        let task = task?.path();
        match fs::read_to_string(task.join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<u32>)),
            // The thread has ended meanwhile.
            Err(_) if !task.exists() => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return processes_with_parent(parent),
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// Returns all children of `parent`. Reads the status of every process to find them.
fn processes_with_parent(parent: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // Fails if the process has ended meanwhile.
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if field.is_some_and(|id| id.trim().parse() == Ok(parent)) {
            children.push(process);
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::{children, processes_with_parent};
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use std::process::{self, Command, Stdio};

    #[test]
    fn children_are_found_alive_or_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // Tests both ways, if this kernel has both.
        let is_found = |child| {
            let found = children(process::id()).unwrap().contains(&child);
            assert_eq!(processes_with_parent(process::id()).unwrap().contains(&child), found);
            found
        };
        assert!(is_found(child.id()));
        assert!(children(child.id()).unwrap().is_empty());
        child.kill().unwrap();
        // With `NOWAIT` the exit status remains, so the child stays a zombie.
        waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(is_found(child.id()));
        child.wait().unwrap();
        assert!(!is_found(child.id()));
    }
}
