//! Describes the states of a process and its descendants, for the error message of a test.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::time::Duration;

use crate::children::children;

/// Returns a line for each thread of a process and of its descendants. A line has the thread's name, its
/// state (proc_pid_stat(5)), the kernel function in which it sleeps, the time that it ran on a CPU, and the
/// time that it was ready but waited for a CPU. Threads that end meanwhile are left out.
pub(super) fn describe(process: u32) -> String {
    let mut text = String::new();
    let mut pending = vec![process];
    while let Some(process) = pending.pop() {
        // A process that has ended has no threads and no children.
        for line in threads(process).unwrap_or_default() {
            // Writing to a string does not fail.
            writeln!(text, "{line}").unwrap_or_default();
        }
        pending.extend(children(process).unwrap_or_default());
    }
    text
}

fn threads(process: u32) -> io::Result<Vec<String>> {
    let folders = fs::read_dir(format!("/proc/{process}/task"))?.collect::<io::Result<Vec<_>>>()?;
    Ok(folders.iter().filter_map(|folder| thread(process, &folder.path().display().to_string())).collect())
}

fn thread(process: u32, folder: &str) -> Option<String> {
    let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).ok();
    let (stat, times) = (read("stat")?, read("schedstat").unwrap_or_default());
    let (name, state) = name_and_state(&stat)?;
    let [running, ready] = schedule_times(&times);
    // Only root may read `wchan`.
    let place = read("wchan").filter(|place| place != "0").unwrap_or_default();
    Some(format!("{process} {name}: {state} {place}, {running:.2?} on a CPU, {ready:.2?} ready without one"))
}

/// Returns the name and the state in a line of `/proc/PID/stat`. A name may contain any characters, including
/// parentheses.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name, rest.chars().next()?))
}

/// Returns two times from a line of `/proc/PID/schedstat`: the time that the thread ran, and the time that it
/// waited for a CPU. They are zero if the kernel does not count them.
fn schedule_times(text: &str) -> [Duration; 2] {
    let mut times = text.split_whitespace().map_while(|word| word.parse().ok()).map(Duration::from_nanos);
    [(); 2].map(|()| times.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{describe, name_and_state, schedule_times};
    use std::process::{self, Command, Stdio};
    use std::time::Duration;

    #[test]
    fn descendants_are_described() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let text = describe(process::id());
        child.stdin.take();
        child.wait().unwrap();
        assert!(text.contains(&format!("{} cat: ", child.id())), "{text}");
        assert!(text.lines().any(|line| line.starts_with(&format!("{} ", process::id()))), "{text}");
        assert!(!describe(child.id()).contains(" cat: "));
    }

    #[test]
    fn lines_of_proc_are_parsed() {
        assert_eq!(name_and_state("7 (name.of 2) R 1 7"), Some(("name.of 2", 'R')));
        assert_eq!(name_and_state("7 (a) (b) S 1 7"), Some(("a) (b", 'S')));
        assert_eq!(name_and_state(""), None);
        assert_eq!(schedule_times("2000 3000 4\n"), [2, 3].map(Duration::from_micros));
        assert_eq!(schedule_times(""), [Duration::ZERO; 2]);
    }
}
