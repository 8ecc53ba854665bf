//! Guests that wait for gdb, and gdb processes.
//!
//! The tests run for each engine that works on this host. A guest is started by uhyve with `--gdb`, and a
//! real gdb connects to it, executes a list of commands, and prints their results. Each process has a time
//! limit, so a test cannot hang.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;

use crate::program;

/// Time limit in seconds for each process, as argument of timeout(1).
const TIMEOUT: &str = "300";

/// All engines.
const ENGINES: [&str; 2] = ["kvm", "process"];

/// Engine that runs guests, and the folder of their images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) engine: &'static str,
    images: &'static Path,
}

/// Returns the engine that `HERMIT_TEST_ENGINE` names, or all engines that run the images on this host. The
/// list is empty without images or gdb.
pub(crate) fn hosts() -> &'static [Host] {
    static HOSTS: OnceLock<Vec<Host>> = OnceLock::new();
    HOSTS.get_or_init(find_hosts)
}

fn find_hosts() -> Vec<Host> {
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no gdb");
        return Vec::new();
    }
    let Some(images) = env::var_os("HERMIT_TEST_IMAGES") else {
        eprintln!("skipped: HERMIT_TEST_IMAGES names no folder with images");
        return Vec::new();
    };
    let images: &Path = Box::leak(PathBuf::from(images).into_boxed_path());
    let hosts = ENGINES.map(|engine| Host { engine, images });
    if let Ok(wanted) = env::var("HERMIT_TEST_ENGINE") {
        return hosts.into_iter().filter(|host| host.engine == wanted).collect();
    }
    let hosts: Vec<_> = hosts.into_iter().filter(Host::works).collect();
    assert!(!hosts.is_empty(), "no engine runs the images in {}", images.display());
    hosts
}

impl Host {
    /// Returns true if the engine runs an image. KVM with software emulation runs only images without
    /// floating-point instructions.
    fn works(&self) -> bool {
        let mut uhyve = limited(program::uhyve());
        let output = uhyve.args(["--engine", self.engine]).arg(self.image("hello_world")).output().unwrap();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: the engine {} does not run the images: {errors}", self.engine);
        }
        output.status.success()
    }

    fn image(&self, name: &str) -> PathBuf {
        self.images.join(name)
    }

    /// Starts a VM that waits for gdb.
    pub(crate) fn start(&self, image: &str, cpus: &str, arguments: &[&str]) -> RunningGuest {
        println!("engine {}", self.engine);
        RunningGuest::start(self, &["--gdb", "0", "--cpus", cpus], image, arguments)
    }

    /// Starts a VM without a GDB server, which logs its process ID.
    pub(crate) fn start_alone(&self, image: &str, cpus: &str, arguments: &[&str]) -> RunningGuest {
        RunningGuest::start(self, &["--verbose", "--cpus", cpus], image, arguments)
    }
}

/// Command with a time limit.
fn limited(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("timeout");
    // With --foreground, timeout(1) creates no process group of its own.
    command.args(["--foreground", TIMEOUT]).arg(program.as_ref());
    command
}

/// gdb that executes these commands.
fn gdb(commands: &[&str]) -> Command {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set auto-load off", "-ex", "set language c"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    gdb
}

/// Waits for a program, and returns its output.
fn output_of(program: Child) -> String {
    let output = program.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    println!("{}{}", text[0], text[1]);
    text.concat()
}

/// VM that runs, or waits for gdb.
pub(crate) struct RunningGuest {
    process: Child,
    stderr: BufReader<ChildStderr>,
    image: PathBuf,
    /// First line on standard error of uhyve, other than debug messages, or the two lines about gdb.
    line: String,
}

impl RunningGuest {
    fn start(host: &Host, options: &[&str], image: &str, arguments: &[&str]) -> Self {
        let image = host.image(image);
        let mut command = limited(program::uhyve());
        command.args(["--engine", host.engine]).args(options).arg(&image).arg("--").args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while stderr.read_line(&mut line).unwrap() > 0 && line.starts_with("uhyve: debug: ") {
            line.clear();
        }
        if line.contains("waits for gdb") {
            stderr.read_line(&mut line).unwrap();
        }
        Self { process, stderr, image, line }
    }

    /// Returns the part of the first lines between two texts.
    fn line_between(&self, before: &str, after: &str) -> &str {
        let found = self.line.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        found.unwrap_or_else(|| panic!("no {before:?} in {:?}", self.line)).0
    }

    /// Returns the port of the GDB server.
    pub(crate) fn port(&self) -> &str {
        self.line_between("target remote :", "\"")
    }

    /// Starts a gdb that connects and executes these commands.
    pub(crate) fn gdb(&self, commands: &[&str]) -> Child {
        let connect = format!("target remote :{}", self.port());
        let mut gdb = gdb(&[&[&*connect], commands].concat());
        gdb.arg(&self.image).spawn().unwrap()
    }

    /// Runs a gdb that attaches to the guest's process and executes these commands, and returns its output.
    pub(crate) fn attach(&self, commands: &[&str]) -> String {
        let (process, base) =
            (self.line_between("is process ", ","), self.line_between("image is at ", "\n"));
        let signals = "handle SIGUSR1 SIGUSR2 SIGALRM SIGSEGV nostop noprint pass";
        let symbols = format!("add-symbol-file {} -o {base}", self.image.display());
        let mut gdb = gdb(&[&[signals, &*symbols], commands].concat());
        output_of(gdb.args(["-p", process]).spawn().unwrap())
    }

    /// Runs a gdb that connects and executes these commands, and returns its output.
    pub(crate) fn debug(&self, commands: &[&str]) -> String {
        output_of(self.gdb(commands))
    }

    /// Waits for the end, and returns standard output, standard error and status.
    pub(crate) fn end(mut self) -> (String, String, ExitStatus) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.process.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (stdout, stderr, self.process.wait().unwrap())
    }
}

/// If a test fails, prints the messages of uhyve, because gdb only reports that the connection is lost.
impl Drop for RunningGuest {
    fn drop(&mut self) {
        if thread::panicking() {
            // timeout(1) passes SIGTERM on.
            let _: std::io::Result<ExitStatus> =
                Command::new("kill").arg(self.process.id().to_string()).status();
            let mut text = String::new();
            let read = self.stderr.read_to_string(&mut text);
            println!("uhyve: {}{text}({read:?}, {:?})", self.line, self.process.wait());
        }
    }
}

/// Asserts that `text` contains all of `parts`, in this order.
#[track_caller]
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    if let Some(part) = missing(text, parts) {
        panic!("no {part:?} in its place in {text}");
    }
}

/// Returns the first part that is missing in a text; the parts must occur in this order.
pub(crate) fn missing<'a>(text: &str, parts: &[&'a str]) -> Option<&'a str> {
    let mut rest = text;
    parts.iter().copied().find(|part| {
        let after = rest.split_once(part).map(|(_, after)| after);
        rest = after.unwrap_or(rest);
        after.is_none()
    })
}
