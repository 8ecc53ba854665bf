//! `uhyve IMAGE`: runs a program as a virtual machine.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    use uhyve::config::{Config, CpuCount, EngineKind};
    let mut args = std::env::args_os().skip(1);
    let image = args.next().expect("image").into();
    let cpus = std::env::var("CPUS").unwrap_or("1".into()).parse::<CpuCount>().unwrap();
    let config = Config { image, arguments: args.collect(), environment: vec![], cpus, memory: Default::default(), disks: vec![], engine: EngineKind::Kvm };
    let vm = uhyve::vm::Vm::new(config).load().unwrap().start().unwrap();
    let end = vm.wait().unwrap();
    eprintln!("{end:?}");
    std::process::ExitCode::SUCCESS
}
