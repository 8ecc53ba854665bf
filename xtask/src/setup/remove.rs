//! `cargo xtask setup --remove`: takes out of the toolchain what setup put in.

use anyhow::{Context, Result};

use super::files;
use super::record::{Addition, Record};
use super::toolchain::Toolchain;
use crate::build::{BARE_TARGET, GUEST_TARGET};
use crate::process;
use crate::workspace;

/// Removes everything that the record names, and the record.
pub(crate) fn remove(toolchain: &Toolchain) -> Result<()> {
    if !toolchain.records().exists() {
        eprintln!("nothing to remove: setup installed nothing in {}", toolchain.sysroot.display());
        return Ok(());
    }
    let record = Record::open(toolchain)?;
    for target in [GUEST_TARGET, BARE_TARGET] {
        if record.has(Addition::Folder(target)) {
            let folder = toolchain.target(target);
            eprintln!("removing {}", folder.display());
            files::remove_dir(&folder)?;
            record.forget(Addition::Folder(target))?;
        }
    }
    let by_rustup = [
        ("target", BARE_TARGET, Addition::RustupTarget(BARE_TARGET)),
        ("component", "rust-src", Addition::RustupComponent("rust-src")),
    ];
    for (kind, name, addition) in by_rustup {
        if record.has(addition) {
            eprintln!("removing the {kind} {name}");
            let mut rustup = toolchain
                .rustup(&[kind, "remove"], name)
                .with_context(|| format!("rustup installed the {kind} {name}, but is not to be found now"))?;
            process::run(&mut rustup)?;
            record.forget(addition)?;
        }
    }
    if record.has(Addition::Package("qemu-system-x86")) {
        eprintln!("QEMU stays; `apt-get remove qemu-system-x86` takes it out");
    }
    files::remove_dir(&workspace::target_dir().join("setup"))?;
    record.delete()
}
