//! Block requests that a guest may not make.

use crate::guest::GuestBuilder;
use crate::host::Host;
use crate::stalled;
use crate::virtio::attacks;
use crate::virtio::disks::{self, DENIED, INVALID, SECTORS};
use crate::virtio::{Assembled, Driver};

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Runs a guest with a disk. Asserts that the disk then has these `contents`, and that another disk in the
/// same folder is unchanged.
fn run(
    access: &str,
    contents: impl FnOnce(&[u8]) -> Vec<u8>,
    assemble: impl FnOnce(&mut Driver<'_, GuestBuilder>) -> Assembled,
) {
    let Some(mut host) = Host::new() else { return };
    let (disk, sibling) = (host.disk("disk", SECTORS), host.disk("sibling", SECTORS));
    host.option(&format!("--block={}{access}", disk.name()));
    let image = GuestBuilder::image(DONE, |guest| assemble(&mut Driver(guest)));
    assert_eq!(host.run(&image), DONE.into());
    assert!(disk.current() == contents(disk.original()));
    assert!(sibling.is_unchanged());
}

#[test]
fn write_changes_its_sector_only() {
    run("", disks::written, disks::write);
}

#[test]
fn write_to_a_read_only_disk_fails() {
    run(":ro", <[u8]>::to_vec, |driver| disks::failing_writes(driver, DENIED));
}

#[test]
fn write_beyond_the_end_of_a_disk_fails() {
    run("", <[u8]>::to_vec, |driver| disks::failing_writes(driver, INVALID));
}

#[test]
fn unsupported_requests_fail_and_change_nothing() {
    run("", <[u8]>::to_vec, disks::unsupported);
}

#[test]
fn stalled_output_does_not_stop_a_disk() {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", SECTORS);
    host.option(&format!("--block={}", disk.name()));
    let image = GuestBuilder::image(DONE, |guest| {
        attacks::print(&mut Driver(guest))?;
        disks::write(&mut Driver(guest))?;
        guest.spin()
    });
    stalled::writes(&mut host.command(&image), disk.name().as_ref(), &disks::written(disk.original()));
}
