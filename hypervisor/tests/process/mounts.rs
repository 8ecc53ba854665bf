//! Guests that attempt to leave a mounted folder.

use hermit_interface::machine::HOLE;
use hermit_interface::process::{READ, WRITE, queue_eventfd};
use iced_x86::code_asm::CodeAssembler;

use crate::files::{self, Machine, MountedFolder};
use crate::guest::{Assembled, FREE, GuestBuilder, Operand};
use crate::host::{Host, Outcome};

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Number of attempts while a directory becomes a symbolic link.
const RACES: u32 = 500;

/// Interrupt line and registers of the file-system device, in a VM with two consoles and without disks and network.
const LINE: u32 = 3;
const REGISTERS: u64 = HOLE.start + 0x3000;

/// Word that is written to a queue event, behind what the driver uses.
const ONE: i32 = FREE + 0x2_0000;

impl Machine for GuestBuilder {
    fn code(&mut self) -> &mut CodeAssembler {
        &mut self.code
    }

    fn write_register(&mut self, offset: u64, value: u32) -> Assembled {
        self.hypercall([WRITE.into(), (REGISTERS + offset).into(), 4.into(), u64::from(value).into()])
    }

    fn read_register(&mut self, offset: u64) -> Assembled {
        self.hypercall([READ.into(), (REGISTERS + offset).into(), 4.into()])
    }

    fn notify(&mut self, queue: u32) -> Assembled {
        self.put(ONE, &[1, 0, 0, 0, 0, 0, 0, 0])?;
        let event = u64::from(queue_eventfd(LINE, queue)).into();
        self.call(libc::SYS_write, [event, Operand::Physical(ONE), 8.into()])
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
