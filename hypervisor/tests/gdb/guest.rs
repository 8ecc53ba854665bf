//! A guest that waits for gdb, and a gdb that connects.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;

/// Seconds until something that does not end is ended.
const LIMIT: &str = "300";

/// What runs guests.
const ENGINES: [&str; 2] = ["kvm", "process"];

/// Where guests run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) engine: &'static str,
    images: &'static Path,
}

/// The engine that `HERMIT_TEST_ENGINE` names, or every one that runs the images here. None if there are no images, or no gdb.
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
    /// KVM that merely emulates runs only images without floating-point instructions.
    fn works(&self) -> bool {
        let mut uhyve = limited(env!("CARGO_BIN_EXE_uhyve"));
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

    /// A machine that waits for gdb.
    pub(crate) fn start(&self, image: &str, cpus: &str, arguments: &[&str]) -> Guest {
        println!("engine {}", self.engine);
        Guest::start(self, &["--gdb", "0", "--cpus", cpus], image, arguments)
    }

    /// A machine that does not, and says what it is.
    pub(crate) fn start_alone(&self, image: &str, cpus: &str, arguments: &[&str]) -> Guest {
        Guest::start(self, &["--verbose", "--cpus", cpus], image, arguments)
    }
}

/// A command that ends in time.
fn limited(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("timeout");
    // In the foreground SIGINT does not end the program by itself.
    command.args(["--foreground", LIMIT]).arg(program.as_ref());
    command
}

/// A gdb that does these commands.
fn gdb(commands: &[&str]) -> Command {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set auto-load off", "-ex", "set language c"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    gdb
}

/// What a program prints until it ends.
fn printed(program: Child) -> String {
    let output = program.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    println!("{}{}", text[0], text[1]);
    text.concat()
}

/// A machine that runs, or waits for gdb.
pub(crate) struct Guest {
    process: Child,
    stderr: BufReader<ChildStderr>,
    image: PathBuf,
    /// The first line that uhyve has said.
    line: String,
}

impl Guest {
    fn start(host: &Host, options: &[&str], image: &str, arguments: &[&str]) -> Self {
        let image = host.image(image);
        let mut command = limited(env!("CARGO_BIN_EXE_uhyve"));
        command.args(["--engine", host.engine]).args(options).arg(&image).arg("--").args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        Self { process, stderr, image, line }
    }

    /// What uhyve's first line has between these.
    fn said(&self, before: &str, after: &str) -> &str {
        let found = self.line.split_once(before).and_then(|(_, rest)| rest.split_once(after));
        found.unwrap_or_else(|| panic!("no {before:?} in {:?}", self.line)).0
    }

    /// Where it waits for gdb.
    pub(crate) fn port(&self) -> &str {
        self.said("target remote :", "\"")
    }

    /// A gdb that has connected and does these commands.
    pub(crate) fn gdb(&self, commands: &[&str]) -> Child {
        let connect = format!("target remote :{}", self.port());
        let mut gdb = gdb(&[&[&*connect], commands].concat());
        gdb.arg(&self.image).spawn().unwrap()
    }

    /// What a gdb prints that attaches to the guest's process and does these commands.
    pub(crate) fn attach(&self, commands: &[&str]) -> String {
        let (process, base) = (self.said("is process ", ","), self.said("image is at ", "\n"));
        let signals = "handle SIGUSR1 SIGUSR2 SIGALRM SIGSEGV nostop noprint pass";
        let symbols = format!("add-symbol-file {} -o {base}", self.image.display());
        let mut gdb = gdb(&[&[signals, &*symbols], commands].concat());
        printed(gdb.args(["-p", process]).spawn().unwrap())
    }

    /// What a gdb prints that does these commands.
    pub(crate) fn debug(&self, commands: &[&str]) -> String {
        printed(self.gdb(commands))
    }

    /// What the guest printed, what uhyve printed, and how it ended.
    pub(crate) fn end(mut self) -> (String, String, ExitStatus) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.process.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (stdout, stderr, self.process.wait().unwrap())
    }
}

/// A test that fails says what uhyve said: gdb knows no more than that nobody answers.
impl Drop for Guest {
    fn drop(&mut self) {
        if thread::panicking() {
            // SIGTERM, which timeout passes on.
            let _: std::io::Result<ExitStatus> =
                Command::new("kill").arg(self.process.id().to_string()).status();
            let mut text = String::new();
            let read = self.stderr.read_to_string(&mut text);
            println!("uhyve: {}{text}({read:?}, {:?})", self.line, self.process.wait());
        }
    }
}

/// Checks that `text` has all of `parts`, in this order.
#[track_caller]
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("no {part:?} where it belongs in {text}")
        };
        rest = after;
    }
}
