//! Set-up, lints, and builds that the test rings share. They run at the same time, because each of them alone
//! does not keep all CPUs busy.

use std::sync::OnceLock;

use anyhow::{Error, Result};
use hermit_machines::uhyve::{Engine, Uhyve, has_kvm};
use hermit_toolchain::setup;

use super::host_tests::{Compiler, HostTests};
use super::images::{Built, Images};
use super::report::Report;
use super::schedule::Tests;
use super::{Lints, Ring, TestPlan};
use crate::{lint, patches};

/// Build results that the test rings share, so that each part is built only once. A part is missing if no
/// ring needs it, or if its build failed.
#[derive(Debug)]
pub(super) struct Builds {
    pub(super) host_tests: Option<HostTests>,
    pub(super) images: Option<Images>,
    /// Images without floating-point instructions.
    pub(super) soft_images: Option<Images>,
}

impl Builds {
    /// Sets up the machine, runs the lints, and builds what the rings need.
    pub(super) fn run(report: &mut Report, plan: &TestPlan) -> Self {
        let has = |ring| plan.rings.contains(&ring);
        let runs_uhyve = has(Ring::Process) || has(Ring::Kvm);
        let (host_tests, images, soft_images) = (Built::nothing(), Built::nothing(), Built::nothing());
        let outcome = OnceLock::new();
        // The first task that needs set-up runs it, and the other tasks wait for its end.
        let set_up = || -> Result<()> {
            let outcome = outcome.get_or_init(|| prepare(plan).map_err(|error| format!("{error:#}")));
            outcome.clone().map_err(Error::msg)
        };
        let mut tests = Tests::default();
        tests.add("setup", set_up);
        let builds_host_tests = runs_uhyve || has(Ring::Host);
        // All packages are built if a ring of uhyve runs, because these rings run uhyve's integration tests.
        let packages = plan.packages.as_ref().filter(|_| !runs_uhyve);
        // If all packages are linted and built, clippy does both in one pass.
        let is_one_pass = builds_host_tests && packages.is_none() && plan.lints == Lints::All;
        let compiler = if is_one_pass { Compiler::Clippy } else { Compiler::Rustc };
        if builds_host_tests {
            let (name, host_tests) = (host_tests_name(compiler), &host_tests);
            add_announced(&mut tests, name, move || {
                host_tests.build(|| HostTests::build(packages, compiler, plan.long, set_up))
            });
        }
        match plan.lints {
            Lints::None => {}
            Lints::Text => add_announced(&mut tests, "lint: text", lint::check_text),
            Lints::All if is_one_pass => {
                add_announced(&mut tests, "lint", || lint::check_beside_default_members(set_up));
            }
            Lints::All => add_announced(&mut tests, "lint", || lint::check(set_up)),
        }
        if plan.lints == Lints::All {
            add_announced(&mut tests, "patches", || {
                set_up()?;
                patches::check()
            });
        }
        if runs_uhyve || has(Ring::Qemu) {
            add_announced(&mut tests, "build: images", || {
                set_up()?;
                images.build(Images::build)?;
                // The kernel's objects are built by now, so this is quick.
                setup::install_kernel()
            });
        }
        if has(Ring::Qemu) || (has(Ring::Kvm) && has_kvm()) {
            add_announced(&mut tests, "build: images without floating-point instructions", || {
                set_up()?;
                build_soft(plan, &soft_images)
            });
        }
        report.run(tests);
        Self { host_tests: host_tests.get(), images: images.get(), soft_images: soft_images.get() }
    }
}

fn host_tests_name(compiler: Compiler) -> &'static str {
    match compiler {
        Compiler::Rustc => "build: host tests",
        Compiler::Clippy => "build and lint: host tests",
    }
}

/// Installs what the lints and the rings need.
fn prepare(plan: &TestPlan) -> Result<()> {
    if plan.rings.contains(&Ring::Qemu) {
        setup::ensure_with_qemu()
    } else if plan.lints == Lints::All || plan.rings.iter().any(|ring| !ring.is_long()) {
        setup::ensure()
    } else {
        Ok(())
    }
}

/// Builds images without floating-point instructions, if a test ring needs them. The ring `qemu` does; the
/// ring `kvm` does only if KVM emulates in software, because KVM on hardware runs all images.
fn build_soft(plan: &TestPlan, images: &Built<Images>) -> Result<()> {
    let is_needed = plan.rings.contains(&Ring::Qemu) || !Uhyve::check(setup::uhyve()?)?.works(Engine::Kvm);
    if is_needed { images.build(Images::build_soft) } else { Ok(()) }
}

/// Adds a task that takes minutes. So its start is printed, too.
fn add_announced<'a>(
    tests: &mut Tests<'a>,
    name: &'static str,
    test: impl FnOnce() -> Result<()> + Send + 'a,
) {
    tests.add(name, move || {
        println!("start   {name}");
        test()
    });
}
