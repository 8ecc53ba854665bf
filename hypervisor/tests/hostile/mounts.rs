//! Guests that attempt to leave a mounted folder.

use iced_x86::code_asm::CodeAssembler;

use crate::files::{self, Machine, MountedFolder};
use crate::guest::{Assembled, GuestBuilder};
use crate::host::Host;
use crate::virtio;

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Number of attempts while a directory becomes a symbolic link. It is small, because KVM may emulate the
/// guest's instructions.
const RACES: u32 = 50;

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
        self.exit(status)
    }
}

fn host(folder: &MountedFolder) -> Option<Host> {
    let mut host = Host::new()?;
    host.option("--mount");
    host.option(&format!("{}:/srv", folder.inside().display()));
    Some(host)
}

#[test]
fn guest_does_not_leave_its_folder() {
    let folder = MountedFolder::new();
    let Some(host) = host(&folder) else { return };
    let mut expected = Vec::new();
    let image = GuestBuilder::image(DONE, |guest| {
        expected = files::attempt_all(guest)?;
        Ok(())
    });
    assert_eq!(host.run(&image), DONE.into());
    folder.check_outside();
    folder.check_records(&expected);
}

#[test]
fn guest_does_not_follow_a_directory_that_becomes_a_symlink() {
    let folder = MountedFolder::new();
    let Some(host) = host(&folder) else { return };
    let image = GuestBuilder::image(DONE, |guest| files::race(guest, RACES));
    assert_eq!(folder.exchange_while(|| host.run(&image)), DONE.into());
    folder.check_outside();
    folder.check_victim();
}
