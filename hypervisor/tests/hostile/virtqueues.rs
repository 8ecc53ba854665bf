//! Malformed virtqueues.

use crate::guest::GuestBuilder;
use crate::host::Host;
use crate::virtio::attacks::{self, HEADERS, QUEUES};
use crate::virtio::{Assembled, Driver};

/// Exit status of a guest whose entropy device still works at its end.
const WORKED: u8 = 42;

/// Runs a guest, after which the entropy device must still work and the disk must be unchanged.
fn run(assemble: impl FnOnce(&mut Driver<'_, GuestBuilder>) -> Assembled) {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", 16);
    host.option("--block");
    host.option(&disk.name());
    host.network();
    let image = GuestBuilder::image(WORKED, |guest| {
        let mut driver = Driver(guest);
        assemble(&mut driver)?;
        attacks::fetch_random_numbers(&mut driver)
    });
    assert_eq!(host.run(&image), WORKED.into());
    assert!(disk.is_unchanged());
}

#[test]
fn rings_outside_memory_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::rings_outside_memory(driver, queue)));
}

#[test]
fn rings_of_invalid_size_or_overlapping_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::invalid_rings(driver, queue)));
}

#[test]
fn malformed_chains_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::malformed_chains(driver, queue)));
}

#[test]
fn looping_indirect_tables_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::looping_tables(driver, queue)));
}

#[test]
fn jumping_available_index_leaves_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::jumping_index(driver, queue)));
}

#[test]
fn invalid_status_writes_leave_other_devices_working() {
    QUEUES.into_iter().for_each(|queue| run(|driver| attacks::invalid_status(driver, queue)));
}

#[test]
fn notification_storm_does_not_starve_other_devices() {
    run(|driver| attacks::notification_storm(driver, 2_500));
}

#[test]
fn notification_storm_on_one_queue_does_not_starve_other_devices() {
    run(attacks::notification_storm_on_one_queue);
}

#[test]
fn invalid_frames_leave_other_devices_working() {
    HEADERS.into_iter().for_each(|header| run(|driver| attacks::invalid_frames(driver, header)));
}

#[test]
fn output_of_much_memory_leaves_other_devices_working() {
    run(attacks::output_of_much_memory);
}
