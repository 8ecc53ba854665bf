//! The plan of the suite: the selection of measurements, and the files that they need.
//!
//! The suite has two steps. The first step runs as the user: it builds programs and images, downloads Linux's
//! kernel, and leaves out systems that this host cannot run. The second step needs a new network namespace,
//! so it runs in another process, as the command `net-bench`. A [`NetBenchPlan`] is the result of the first
//! step and becomes the command line of the second step: [`NetBenchPlan::arguments`] writes that command
//! line, and clap parses it in the other process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::setup::packages::{IPROUTE, WRK};
use hermit_toolchain::{build, setup};

use super::container;
use super::server_program::ServerProgram;
use super::system::System;
use super::topic::Topic;
use crate::bench::cpio::{self, EntryType};
use crate::bench::debian_kernel::{self, LinuxKernel};
use crate::bench::{BenchPlatform, example, linux};

/// Default number of runs, whose median is the figure.
const RUNS: u32 = 3;

/// The selection on the command line.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NetSelection {
    /// net and web: measure these systems only
    #[arg(long = "system", value_enum, value_name = "SYSTEM", value_delimiter = ',')]
    pub(super) systems: Vec<System>,
    /// net: measure these topics only
    #[arg(long = "topic", value_enum, value_name = "TOPIC", value_delimiter = ',')]
    topics: Vec<Topic>,
    /// net and web: number of runs, whose median is the figure
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// net: measure flows over lossy paths instead: throughput, completion times and fairness, of QEMU and
    /// Linux
    ///
    /// A relay between guest and host emulates paths of 100 Mbit/s with round trips of 10 and 100 ms and a
    /// queue of as much as is sent in one: with random loss of 0.1, 1, 3 and 10 % in each direction, and with
    /// jitter and reordering. A flow of 6 MiB ends after 10 s at the latest, and its throughput is what
    /// arrived by then. A run takes about ten minutes; each one has another seed, which is the same for both
    /// systems. Figures and methods: docs/measurements.md
    #[arg(id = "loss", long = "loss")]
    pub(super) is_lossy: bool,
    /// net: with --loss, also measure a flow of 100 MiB at a loss of 0.1 %
    #[arg(id = "long", long = "long", requires = "loss")]
    pub(super) is_long: bool,
    /// net: with --loss, measure only rows whose names contain a text, such as `3 %, 100 ms`
    #[arg(long = "row", value_name = "TEXT", requires = "loss")]
    pub(super) rows: Vec<String>,
    /// net: congestion control of our guests' TCP
    #[arg(long, value_name = "NAME", value_parser = ["cubic", "reno", "bbr"])]
    pub(crate) congestion: Option<String>,
}

impl NetSelection {
    /// Returns the selection for the suite `web`.
    pub(crate) fn web(&self) -> Self {
        Self { topics: vec![Topic::Web], is_lossy: false, is_long: false, rows: Vec::new(), ..self.clone() }
    }

    /// Returns true if the options select systems or topics. The figures are then not those of the whole
    /// suite.
    pub(crate) const fn is_part(&self) -> bool {
        !self.systems.is_empty() || !self.topics.is_empty()
    }

    /// Returns the name of the suite `net` in the record of figures.
    pub(crate) fn record_name(&self) -> &'static str {
        if self.is_lossy { "net, loss" } else { "net" }
    }

    /// Returns true if a topic is selected. If the options name no topic, all topics of the suite `net` are
    /// selected.
    pub(super) fn includes(&self, topic: Topic) -> bool {
        if self.topics.is_empty() { topic != Topic::Web } else { self.topics.contains(&topic) }
    }

    /// Returns true if a row is selected. If the options name no row, all rows are selected.
    pub(super) fn includes_row(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|text| row.contains(text.as_str()))
    }

    /// Returns the programs that the topics need.
    fn programs(&self) -> Vec<ServerProgram> {
        let net = [Topic::Throughput, Topic::Latency, Topic::Connections].as_slice();
        if self.is_lossy {
            return vec![ServerProgram::NetBench];
        }
        let programs = [
            (ServerProgram::NetBench, net),
            (ServerProgram::Httpd, &[Topic::Http, Topic::Start]),
            (ServerProgram::Web, &[Topic::Web]),
            (ServerProgram::IdleLatency, &[Topic::Idle]),
        ];
        let is_needed = |topics: &[Topic]| topics.iter().any(|topic| self.includes(*topic));
        programs.into_iter().filter(|(_, topics)| is_needed(topics)).map(|(program, _)| program).collect()
    }
}

/// The selection, and the files that it needs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NetBenchPlan {
    /// The selection, with all systems named.
    #[command(flatten)]
    pub(super) selection: NetSelection,
    /// uhyve's executable
    #[arg(long)]
    pub(super) uhyve: PathBuf,
    /// The loader with which QEMU boots images
    #[arg(long)]
    pub(super) loader: PathBuf,
    /// The servers as images
    #[arg(long)]
    pub(super) images: Vec<PathBuf>,
    /// The servers, one of them also the client, for Linux, linked statically
    #[arg(long)]
    pub(super) programs: Vec<PathBuf>,
    /// Linux's kernel
    #[arg(long)]
    pub(super) kernel: Option<PathBuf>,
    /// Linux's initramfs, with these programs
    #[arg(long)]
    pub(super) file_system: Option<PathBuf>,
    /// The file to write the figures to
    #[arg(long)]
    pub(super) figures: PathBuf,
}

impl NetBenchPlan {
    /// Builds and downloads the files. Leaves out systems that are not available, with a message.
    pub(super) fn prepare(
        selection: &NetSelection,
        platform: Option<BenchPlatform>,
        figures: &Path,
    ) -> Result<Self> {
        IPROUTE.ensure()?;
        let has_http = !selection.is_lossy && selection.includes(Topic::Http);
        if has_http || selection.includes(Topic::Web) {
            WRK.ensure()?;
        }
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        let names = || selection.programs().into_iter().map(ServerProgram::name);
        let mut plan = Self {
            selection: selection.clone(),
            loader: setup::loader()?,
            images: names().map(example).collect::<Result<_>>()?,
            programs: names().map(linux::native_static).collect::<Result<_>>()?,
            kernel: None,
            file_system: None,
            figures: figures.to_owned(),
            uhyve: uhyve.program.clone(),
        };
        let systems = System::ALL.into_iter();
        let systems =
            systems.filter(|system| selection.systems.is_empty() || selection.systems.contains(system));
        let is_on = |system: &System| platform.is_none_or(|platform| system.is_on(platform));
        // Lossy paths are measured only in QEMU, because the relay is a netdev of QEMU.
        let has_path =
            |system: &System| !selection.is_lossy || matches!(system, System::Qemu | System::Linux);
        plan.selection.systems = systems.filter(is_on).filter(has_path).collect();
        if !uhyve.works(Engine::Process) {
            plan.leave_out(&[System::Uhyve, System::UhyvePorts], uhyve.about(Engine::Process));
        }
        for (systems, missing) in container::missing() {
            plan.leave_out(systems, &format!("{missing} is not installed"));
        }
        if plan.selection.systems.iter().any(|&system| is_linux(system))
            && let Err(error) = plan.prepare_linux()
        {
            plan.leave_out(&[System::Linux, System::LinuxNoTso], &format!("{error:#}"));
        }
        ensure!(!plan.selection.systems.is_empty(), "no selected system can be measured");
        Ok(plan)
    }

    /// Removes systems from the selection, with a message.
    fn leave_out(&mut self, systems: &[System], reason: &str) {
        if self.selection.systems.iter().any(|system| systems.contains(system)) {
            let names: Vec<_> = systems.iter().map(ToString::to_string).collect();
            eprintln!("net: {} cannot be measured: {reason}", names.join(", "));
        }
        self.selection.systems.retain(|system| !systems.contains(system));
    }

    /// Makes an initramfs of `linux_init`, the modules and the programs.
    fn prepare_linux(&mut self) -> Result<()> {
        let (kernel, folder) = (LinuxKernel::get()?, debian_kernel::folder()?);
        let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
        let stripped = |name: &str, program: &Path| {
            let copy = folder.join(name);
            build::strip(program, &copy).and_then(|()| read(&copy))
        };
        let mut files =
            vec![("init".to_owned(), stripped("linux_init", &linux::native_static("linux_init")?)?)];
        for program in self.selection.programs() {
            let name = program.name();
            files.push((name.to_owned(), stripped(name, program.of(&self.programs)?)?));
        }
        for module in &kernel.modules {
            let name = module.file_name().unwrap_or_default().display();
            files.push((format!("modules/{name}"), read(module)?));
        }
        let folders = [
            ("dev", EntryType::Directory),
            ("dev/console", linux::CONSOLE),
            ("modules", EntryType::Directory),
        ];
        let files = files.iter().map(|(name, bytes)| (name.as_str(), EntryType::Executable(bytes)));
        let entries: Vec<_> = folders.into_iter().chain(files).collect();
        let archive = cpio::archive(&entries).context("a program is too large")?;
        let file = folder.join("initramfs-net");
        fs::write(&file, archive).with_context(|| format!("cannot write {}", file.display()))?;
        (self.kernel, self.file_system) = (Some(kernel.image), Some(file));
        Ok(())
    }

    /// Returns the plan as arguments of the command `net-bench`.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--runs".into(), self.selection.runs.to_string().into()];
        arguments.extend(self.selection.is_lossy.then(|| "--loss".into()));
        arguments.extend(self.selection.is_long.then(|| "--long".into()));
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        self.selection.congestion.iter().for_each(|name| option("--congestion", name.into()));
        for row in &self.selection.rows {
            option("--row", row.into());
        }
        for topic in &self.selection.topics {
            option("--topic", name_of(topic));
        }
        for system in &self.selection.systems {
            option("--system", name_of(system));
        }
        self.images.iter().for_each(|image| option("--images", image.into()));
        self.programs.iter().for_each(|program| option("--programs", program.into()));
        option("--uhyve", (&self.uhyve).into());
        option("--loader", (&self.loader).into());
        option("--figures", (&self.figures).into());
        self.kernel.iter().for_each(|kernel| option("--kernel", kernel.into()));
        self.file_system.iter().for_each(|file| option("--file-system", file.into()));
        arguments
    }
}

fn is_linux(system: System) -> bool {
    matches!(system, System::Linux | System::LinuxNoTso)
}

/// Returns the name of a value on the command line.
fn name_of(value: &impl ValueEnum) -> OsString {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{NetBenchPlan, NetSelection};
    use crate::bench::net::system::System;
    use crate::bench::net::topic::Topic;

    #[derive(Debug, Parser)]
    struct TestArguments {
        #[command(flatten)]
        plan: NetBenchPlan,
    }

    #[test]
    fn plan_is_parsed_from_its_arguments() {
        let systems = vec![System::LinuxNoTso, System::Uhyve];
        let selection = NetSelection {
            systems,
            topics: vec![Topic::Http, Topic::Start],
            runs: 7,
            is_lossy: true,
            is_long: true,
            rows: vec!["1 %, 10 ms".to_owned()],
            congestion: Some("bbr".to_owned()),
        };
        let plan = NetBenchPlan {
            selection,
            uhyve: "/u".into(),
            loader: "/l".into(),
            images: vec!["/i 1".into(), "/i2".into()],
            programs: vec!["/p1".into(), "/p2".into()],
            kernel: Some("/k".into()),
            file_system: None,
            figures: "/g".into(),
        };
        let line = TestArguments::parse_from(["xtask".into()].into_iter().chain(plan.arguments()));
        assert_eq!(format!("{:?}", line.plan), format!("{plan:?}"));
    }
}
