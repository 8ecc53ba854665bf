//! Malformed virtqueues, and requests that a guest may not make.

use std::fs;
use std::path::PathBuf;

use crate::guest::GuestBuilder;
use crate::host::{self, Host, Outcome};
use crate::stalled;
use crate::virtio::attacks::{self, HEADERS, QUEUES};
use crate::virtio::disks::{self, DENIED, INVALID, SECTORS};
use crate::virtio::{Assembled, Driver};

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// A guest with a disk in which each byte depends on its sector.
struct Fixture {
    folder: tempfile::TempDir,
    original: Vec<u8>,
    options: Vec<String>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let original: Vec<u8> = (0..SECTORS).flat_map(|sector| [sector ^ 0xa5; 512]).collect();
        fs::write(folder.path().join("disk"), &original).unwrap();
        Self { folder, original, options: Vec::new() }
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Runs a guest to its end. Asserts that the disk has these `contents` afterwards.
    fn run(
        &self,
        access: &str,
        contents: &[u8],
        assemble: impl FnOnce(&mut Driver<'_, GuestBuilder>) -> Assembled,
    ) {
        let host = Host::new(&GuestBuilder::image(DONE, |guest| assemble(&mut Driver(guest))), &[]);
        let disk = format!("--block={}{access}", self.disk().display());
        let outcome = Outcome::from(host.command().arg(disk).args(&self.options).output().unwrap());
        assert_eq!(outcome.code, Some(DONE.into()), "{outcome:?}");
        assert!(!outcome.errors.contains("panicked"), "{outcome:?}");
        assert!(fs::read(self.disk()).unwrap() == contents, "the disk has changed, or has not");
    }
}

/// Runs a guest that makes this attack. Afterwards the entropy device must still work, and the disk must be
/// unchanged.
fn attack(attack: impl FnOnce(&mut Driver<'_, GuestBuilder>) -> Assembled) {
    let fixture = Fixture::new();
    fixture.run("", &fixture.original, |driver| {
        attack(driver)?;
        attacks::fetch_random_numbers(driver)
    });
}

#[test]
fn rings_outside_memory_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::rings_outside_memory(driver, queue)));
}

#[test]
fn rings_of_invalid_size_or_overlapping_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::invalid_rings(driver, queue)));
}

#[test]
fn malformed_chains_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::malformed_chains(driver, queue)));
}

#[test]
fn looping_indirect_tables_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::looping_tables(driver, queue)));
}

#[test]
fn jumping_available_index_leaves_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::jumping_index(driver, queue)));
}

#[test]
fn invalid_status_writes_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| attack(|driver| attacks::invalid_status(driver, queue)));
}

#[test]
fn notification_storm_does_not_starve_other_devices() {
    attack(|driver| attacks::notification_storm(driver, 250));
}

#[test]
fn notification_storm_on_one_queue_does_not_starve_other_devices() {
    attack(attacks::notification_storm_on_one_queue);
}

#[test]
fn invalid_frames_leave_other_devices_working() {
    let Some(network) = host::new_tap() else { return };
    let fixture = Fixture { options: vec![network], ..Fixture::new() };
    for header in HEADERS {
        fixture.run("", &fixture.original, |driver| {
            attacks::invalid_frames(driver, header)?;
            attacks::fetch_random_numbers(driver)
        });
    }
}

#[test]
fn output_of_much_memory_leaves_other_devices_working() {
    attack(attacks::output_of_much_memory);
}

#[test]
fn requests_change_what_they_may_and_no_other_byte() {
    let fixture = Fixture::new();
    fixture.run("", &disks::written(&fixture.original), disks::write);
    let fixture = Fixture::new();
    fixture.run(":ro", &fixture.original, |driver| disks::failing_writes(driver, DENIED));
    fixture.run("", &fixture.original, |driver| disks::failing_writes(driver, INVALID));
    fixture.run("", &fixture.original, disks::unsupported);
}

#[test]
fn stalled_output_does_not_stop_a_disk() {
    let fixture = Fixture::new();
    let image = GuestBuilder::image(DONE, |guest| {
        attacks::print(&mut Driver(guest))?;
        disks::write(&mut Driver(guest))?;
        guest.spin()
    });
    let host = Host::new(&image, &[]);
    let mut uhyve = host.command();
    uhyve.arg("--block").arg(fixture.disk());
    stalled::writes(&mut uhyve, &fixture.disk(), &disks::written(&fixture.original));
}
