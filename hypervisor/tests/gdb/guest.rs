//! A guest that waits for gdb, and a gdb that connects.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// Seconds until something that does not end is ended.
const LIMIT: &str = "60";

/// The folder with images, if there are to be tests, and if there is a gdb.
pub(crate) fn images() -> Option<PathBuf> {
    if Command::new("gdb").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no gdb");
        return None;
    }
    if std::env::var("HERMIT_TEST_ENGINE").is_ok_and(|engine| engine != "kvm") {
        eprintln!("skipped: only guests on KVM have a gdb server");
        return None;
    }
    let folder = std::env::var_os("HERMIT_TEST_IMAGES");
    if folder.is_none() {
        eprintln!("skipped: HERMIT_TEST_IMAGES names no folder with images");
    }
    folder.map(PathBuf::from)
}

/// A command that ends in time.
fn limited(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("timeout");
    // In the foreground SIGINT does not end the program by itself.
    command.args(["--foreground", LIMIT]).arg(program.as_ref());
    command
}

/// A machine that waits for gdb.
pub(crate) struct Guest {
    process: Child,
    stderr: BufReader<ChildStderr>,
    image: PathBuf,
    pub(crate) port: String,
}

impl Guest {
    pub(crate) fn start(image: PathBuf, cpus: &str, arguments: &[&str]) -> Self {
        let mut command = limited(env!("CARGO_BIN_EXE_uhyve"));
        command.args(["--engine", "kvm", "--cpus", cpus, "--gdb", "0"]).arg(&image).arg("--").args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.split_once("target remote :").unwrap_or_else(|| panic!("no port in {line:?}")).1;
        let port = port.split('"').next().unwrap().to_owned();
        Self { process, stderr, image, port }
    }

    /// A gdb that has connected and does these commands.
    pub(crate) fn gdb(&self, commands: &[&str]) -> Child {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", "set auto-load off", "-ex", "set language c"]);
        gdb.args(["-ex", &format!("target remote :{}", self.port)]);
        gdb.args(commands.iter().flat_map(|command| ["-ex", command])).arg(&self.image);
        gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What a gdb prints that does these commands.
    pub(crate) fn debug(&self, commands: &[&str]) -> String {
        let output = self.gdb(commands).wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        println!("{}{}", text[0], text[1]);
        text.concat()
    }

    /// What the guest printed, what uhyve printed, and how it ended.
    pub(crate) fn end(mut self) -> (String, String, ExitStatus) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.process.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (stdout, stderr, self.process.wait().unwrap())
    }
}
