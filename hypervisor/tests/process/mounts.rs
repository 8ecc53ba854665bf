//! Guests that attempt to leave a mounted folder.

use iced_x86::code_asm::CodeAssembler;

use crate::files::{self, Machine, MountedFolder};
use crate::guest::{Assembled, GuestBuilder};
use crate::host::{Host, Outcome};
use crate::virtio;

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Number of attempts while a directory becomes a symbolic link.
const RACES: u32 = 500;

/// The file-system device, in a VM with two consoles and without disks and network.
const FILES: u32 = 3;

impl Machine for GuestBuilder {
    fn code(&mut self) -> &mut CodeAssembler {
        &mut self.code
    }

    fn write_register(&mut self, offset: u64, value: u32) -> Assembled {
        virtio::Machine::write_register(self, FILES, offset, value)
    }

    fn read_register(&mut self, offset: u64) -> Assembled {
        virtio::Machine::read_register(self, FILES, offset)
    }

    fn notify(&mut self, queue: u32) -> Assembled {
        virtio::Machine::notify(self, FILES, queue)
    }

    fn exit_with(&mut self, status: u8) -> Assembled {
        self.exit(i32::from(status))
    }
}

fn run(folder: &MountedFolder, image: &[u8]) {
    let mount = format!("{}:/srv", folder.inside().display());
    let host = Host::new(image, &[]);
    let outcome = Outcome::from(host.command().args(["--mount", &mount]).output().unwrap());
    assert_eq!(outcome.code, Some(DONE.into()), "{outcome:?}");
    assert!(!outcome.errors.contains("panicked"), "{outcome:?}");
    folder.check_outside();
}

#[test]
fn guest_does_not_leave_its_folder() {
    let mut expected = Vec::new();
    let image = GuestBuilder::image(DONE, |guest| {
        expected = files::attempt_all(guest)?;
        Ok(())
    });
    let folder = MountedFolder::new();
    run(&folder, &image);
    folder.check_records(&expected);
}

#[test]
fn guest_does_not_follow_a_directory_that_becomes_a_symlink() {
    let image = GuestBuilder::image(DONE, |guest| files::race(guest, RACES));
    let folder = MountedFolder::new();
    folder.exchange_while(|| run(&folder, &image));
    folder.check_victim();
}
