//! Tests that soft-float images contain no floating-point instructions, and that they boot.

use anyhow::{Result, ensure};
use hermit_machines::qemu::Guest;
use iced_x86::Mnemonic::{self, Fninit, Fxrstor64, Fxsave64, Vzeroupper, Xrstor64, Xsave64};

use super::images::Images;
use super::instructions::{self, Occurrences};
use super::machine_types::{Qemu, expect};
use super::schedule::Tests;

/// The programs whose images are decoded.
const IMAGES: [&str; 3] = ["hello_world", "faults", "threads"];

/// Functions of the kernel that manage the state of the floating-point and vector units, with the
/// instructions that are allowed in them. All images contain these functions: the set-up of a processor, and
/// the preemption of a thread. In soft-float images, XSAVE is never enabled.
const KERNEL: [(&str, &[Mnemonic]); 2] = [
    ("hermit_hal::arch::x86_64::processor::Processor::enter", &[Fninit]),
    (
        "hermit_hal::arch::x86_64::preempt::preempt",
        &[Fninit, Fxrstor64, Fxsave64, Vzeroupper, Xrstor64, Xsave64],
    ),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>, soft: &'a Images) {
    for name in IMAGES {
        tests.add(format!("soft-float: no such instruction in {name}"), move || {
            let found = unexpected(instructions::floating(&soft.image(name))?);
            ensure!(found.is_empty(), "there are floating-point instructions: {found:?}");
            Ok(())
        });
    }
    tests.add("soft-float: an ordinary image has such instructions", move || {
        let found = unexpected(instructions::floating(&qemu.image("hello_world"))?);
        ensure!(!found.is_empty(), "none was found");
        Ok(())
    });
    let greeting: &[&str] = &["Hello, world!", "hermit", "argument 1: one"];
    tests.add("soft-float: hello_world", move || boots(qemu, soft, "hello_world", &["one"], greeting));
    tests.add("soft-float: arithmetic", move || boots(qemu, soft, "faults", &["float"], &["ok"]));
    for check in ["mutex", "tls"] {
        tests.add(format!("soft-float: threads, {check}"), move || {
            boots(qemu, soft, "threads", &[check], &["ok"])
        });
    }
}

/// Returns the occurrences that [`KERNEL`] does not allow.
fn unexpected(occurrences: Occurrences) -> Occurrences {
    let known = |(function, mnemonic): &(String, Mnemonic)| {
        KERNEL.iter().any(|(name, mnemonics)| function == name && mnemonics.contains(mnemonic))
    };
    occurrences.into_iter().filter(|occurrence| !known(occurrence)).collect()
}

fn boots(qemu: &Qemu<'_>, soft: &Images, name: &str, arguments: &[&str], texts: &[&str]) -> Result<()> {
    let guest = Guest { cpus: 2, ..qemu.guest(&soft.image(name), arguments) };
    expect(&guest, b"", 0, texts).map(drop)
}
