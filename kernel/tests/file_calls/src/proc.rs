//! `/proc`, as far as it is the same on every machine.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::time::Duration;
use std::{env, io, thread};

use crate::{Row, show};

/// The value of a line of `/proc/self/status`.
fn status(name: &str) -> io::Result<u32> {
    let text = fs::read_to_string("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| io::Error::other(text))
}

/// Access of the mapping with an address.
fn access<T: ?Sized>(address: *const T) -> io::Result<String> {
    let address = address.addr();
    let text = fs::read_to_string("/proc/self/maps")?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    let found = text.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        (number(start)?..number(end)?).contains(&address).then(|| rest.split(' ').next())?
    });
    found.map(str::to_owned).ok_or_else(|| io::Error::other(format!("{address:x} is not in\n{text}")))
}

fn link(file: &File) -> io::Result<String> {
    let target = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let here = env::current_dir()?;
    Ok(format!("{:?}", target.strip_prefix(here)))
}

pub(crate) const ROWS: &[Row] = &[
    ("proc.cwd", || Ok(format!("{}", fs::read_link("/proc/self/cwd")? == env::current_dir()?))),
    ("proc.cwd.followed", || {
        fs::write("x", "contents")?;
        fs::read_to_string("/proc/self/cwd/x")
    }),
    ("proc.cwd.removed", || {
        fs::create_dir("d")?;
        env::set_current_dir("d")?;
        fs::remove_dir("../d")?;
        Ok(show::success(fs::metadata("/proc/self/cwd/x")))
    }),
    ("proc.fd.directory", || {
        fs::create_dir("d")?;
        link(&File::open("d")?)
    }),
    ("proc.fd.count", || {
        let count = || Ok::<_, io::Error>(fs::read_dir("/proc/self/fd")?.count());
        let before = count()?;
        let file = File::create("x")?;
        let with = count()?;
        drop(file);
        Ok(format!("{} {}", with - before, count()? - before))
    }),
    ("proc.fd.closed", || {
        let number = File::create("x")?.as_raw_fd();
        Ok(show::success(fs::read_link(format!("/proc/self/fd/{number}"))))
    }),
    ("proc.fd.pipe", || {
        let (reader, _writer) = io::pipe()?;
        let target = fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd()))?;
        Ok(format!("{}", target.to_string_lossy().starts_with("pipe:[")))
    }),
    ("proc.fd.file.type", || {
        let entry = fs::read_dir("/proc/self/fd")?.next().ok_or(io::ErrorKind::NotFound)??;
        Ok(format!("{}", entry.file_type()?.is_symlink()))
    }),
    ("proc.maps.code", || access(access::<u8> as *const ())),
    ("proc.maps.constant", || access("constant")),
    ("proc.maps.variable", || {
        static VARIABLE: AtomicU32 = AtomicU32::new(7);
        access(&raw const VARIABLE)
    }),
    ("proc.maps.stack", || {
        let local = 1_u64;
        access(&raw const local)
    }),
    ("proc.maps.heap", || access(&raw const *Box::new(1_u64))),
    ("proc.mounts", || {
        let text = fs::read_to_string("/proc/mounts")?;
        let mut mounts = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        Ok(format!("{}", mounts.any(|fields| fields.get(1..3) == Some(&["/proc", "proc"]))))
    }),
    ("proc.status.threads", || {
        let before = status("Threads")?;
        let (sender, receiver) = mpsc::channel::<()>();
        let thread = thread::spawn(move || receiver.recv().is_err());
        let with = status("Threads")?;
        drop(sender);
        Ok(format!("{} {:?}", with - before, thread.join().ok()))
    }),
    ("proc.stat.fields", || {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        Ok(format!("{}", line.split_whitespace().count()))
    }),
    ("proc.uptime.grows", || {
        let uptime = || {
            let text = fs::read_to_string("/proc/uptime")?;
            let times = text.split_whitespace().map(str::parse::<f64>);
            times.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)
        };
        let before = uptime()?;
        thread::sleep(Duration::from_millis(30));
        let after = uptime()?;
        Ok(format!("{} {} {}", after.len(), after[0] > before[0], after[1] >= before[1]))
    }),
];
