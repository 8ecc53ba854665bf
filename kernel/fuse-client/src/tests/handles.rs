//! Tests of handles that are kept when a file is closed, and used when it is opened again.

use alloc::format;
use alloc::sync::Arc;

use hermit_abi::{O_CREAT, O_RDONLY, O_RDWR};
use hermit_fs::Vfs;
use hermit_fuse::Opcode;
use hermit_fuse::request::{OpenIn, ReleaseIn};

use super::requests::{Messages, open, recorded_files, taken};
use super::server::Files;
use super::system::{TestSystem, ramfs, run};
use super::transport::ModelTransport;

/// One second, the validity of names and attributes.
const SECOND: u64 = 1_000_000_000;

/// A virtual file system on a server that permits to keep attributes, with the files `/m/0` to `/m/19`.
fn files() -> (Vfs<TestSystem>, ModelTransport, Messages) {
    let (vfs, transport, messages) = recorded_files(&Files::with_validity(ramfs(), 1));
    for number in 0..20 {
        drop(open(&vfs, &format!("/m/{number}"), O_CREAT | O_RDWR));
    }
    messages.lock().clear();
    (vfs, transport, messages)
}

/// Returns the numbers of files that were opened and released on the server since the last call.
fn opened_and_released(messages: &Messages) -> (usize, usize) {
    let all = Arc::new(parking_lot::Mutex::new(messages.lock().clone()));
    (taken::<OpenIn>(&all, Opcode::Open).len(), taken::<ReleaseIn>(messages, Opcode::Release).len())
}

#[test]
fn file_that_is_opened_again_for_reading_needs_no_request() {
    let (vfs, transport, messages) = files();
    for _ in 0..3 {
        drop(open(&vfs, "/m/0", O_RDONLY));
    }
    assert_eq!(opened_and_released(&messages), (1, 0));
    // Two at the same time have two handles.
    let both = [(); 2].map(|()| open(&vfs, "/m/0", O_RDONLY));
    drop(both);
    assert_eq!(opened_and_released(&messages), (1, 0));
    for _ in 0..2 {
        drop(open(&vfs, "/m/0", O_RDWR));
    }
    assert_eq!(opened_and_released(&messages), (2, 2), "a file that is open for writing is not kept");
    // The handles are too old.
    transport.pass(SECOND);
    drop(open(&vfs, "/m/0", O_RDONLY));
    assert_eq!(opened_and_released(&messages), (1, 2));
}

#[test]
fn number_of_kept_handles_has_a_limit() {
    let (vfs, _, messages) = files();
    for number in 0..20 {
        drop(open(&vfs, &format!("/m/{number}"), O_RDONLY));
    }
    assert_eq!(opened_and_released(&messages), (20, 4));
    drop(open(&vfs, "/m/19", O_RDONLY));
    assert_eq!(opened_and_released(&messages), (0, 0), "the handles that were kept first are released");
    drop(open(&vfs, "/m/0", O_RDONLY));
    assert_eq!(opened_and_released(&messages), (1, 1));
}

#[test]
fn handle_of_a_removed_file_is_released() {
    let (vfs, _, messages) = files();
    drop(open(&vfs, "/m/0", O_RDONLY));
    assert_eq!(opened_and_released(&messages), (1, 0));
    run(vfs.remove_file(b"/m/0")).expect("a removal");
    assert_eq!(opened_and_released(&messages), (0, 1));
}

#[test]
fn handles_are_not_kept_if_attributes_may_not_be_kept() {
    let (vfs, _, messages) = recorded_files(&Files::new(ramfs()));
    drop(open(&vfs, "/m/0", O_CREAT | O_RDWR));
    messages.lock().clear();
    for _ in 0..2 {
        drop(open(&vfs, "/m/0", O_RDONLY));
    }
    assert_eq!(opened_and_released(&messages), (2, 2));
}
