//! Writes logs to a file by a thread of its own, with a link to the latest file.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::folder::Folder;

/// Stops a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the file's text when it has this many lines: the drop of a guard waits for the writing thread only
/// for a second.
fn text_of_lines(path: &Path, count: usize) -> io::Result<String> {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(path)?;
        if text.matches('\n').count() >= count || start.elapsed() > TIMEOUT {
            return Ok(text);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

pub fn run() -> crate_uses::Result {
    let folder = Folder::new("tracing-appender")?;
    let builder = RollingFileAppender::builder().rotation(Rotation::NEVER).filename_prefix("log");
    let file = builder.filename_suffix("txt").latest_symlink("latest").build(folder.path())?;
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).finish(file);
    let dropped = writer.error_counter();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let mut writer = writer.clone();
            // A write is a message: what `writeln` writes in several may be interleaved with others.
            let line = move |number| format!("thread {thread}, line {number}\n");
            thread::spawn(move || (0..50).try_for_each(|number| writer.write_all(line(number).as_bytes())))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")??;
    }
    let text = text_of_lines(&folder.path().join("latest"), 200)?;
    drop(guard);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    println!(
        "{} {} {}",
        lines.len(),
        crate_uses::digest(lines.join("\n").as_bytes()),
        dropped.dropped_lines()
    );
    println!("{:?}", fs::read_link(folder.path().join("latest"))?.file_name());
    let daily =
        RollingFileAppender::builder().rotation(Rotation::DAILY).max_log_files(2).filename_prefix("day");
    let mut daily = daily.build(folder.path().join("new/sub"))?;
    daily.write_all(b"today")?;
    println!("{}", fs::read_dir(folder.path().join("new/sub"))?.count());
    Ok(())
}
