//! Deception: output of a guest to its user's terminal, and its appearance to other processes.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use hermit_interface::machine::TEXT_PORT;
use iced_x86::code_asm::{al, dx, eax, edx};

use crate::access;
use crate::guest::{Assembled, GuestBuilder};
use crate::host::{Host, TIMED_OUT};

/// Writes bytes to the text port.
fn print(guest: &mut GuestBuilder, text: &[u8]) -> Assembled {
    guest.code.mov(edx, u32::from(TEXT_PORT))?;
    text.iter().try_for_each(|&byte| {
        guest.code.mov(eax, u32::from(byte))?;
        guest.code.out(dx, al)
    })
}

/// A guest may exit with the status of the time limit. Only the report distinguishes this from the time
/// limit.
#[test]
fn report_tells_a_forged_exit_status_from_the_time_limit() {
    let forging = GuestBuilder::image(124, |_| Ok(()));
    let spinning = GuestBuilder::image(0, GuestBuilder::spin);
    for (image, limit, reason) in [(forging, 120, "exited"), (spinning, 1, "timeout")] {
        let Some(mut host) = Host::new() else { return };
        let report = host.file("report.json");
        host.option(&format!("--report={}", report.display()));
        host.timeout(limit);
        assert_eq!(host.run(&image), TIMED_OUT);
        let json = fs::read_to_string(&report).unwrap();
        for field in [format!("\"reason\": \"{reason}\""), "\"status\": 124".to_owned()] {
            assert!(json.contains(&field), "{json}");
        }
    }
}

/// ESC ] 0 ; x BEL sets a terminal's title.
#[test]
fn control_characters_of_a_guest_are_passed_or_visible() {
    let image = GuestBuilder::image(0, |guest| print(guest, b"\x1b]0;x\x07\r\n"));
    for (option, text) in [("--console=raw", "\x1b]0;x\x07\r\n"), ("--console=escaped", "^[]0;x^G\r\n")] {
        let Some(mut host) = Host::new() else { return };
        host.option(option);
        assert_eq!(host.run(&image), 0);
        assert_eq!(fs::read_to_string(host.file("stdout")).unwrap(), text, "{option}");
    }
}

#[test]
fn other_processes_of_the_user_have_no_access() {
    let Some(host) = Host::new() else { return };
    let image = GuestBuilder::image(0, |guest| {
        print(guest, b"!")?;
        guest.spin()
    });
    let mut uhyve = host.command(&image).stdout(Stdio::piped()).spawn().unwrap();
    // The guest runs, so uhyve is confined.
    uhyve.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    access::is_denied(uhyve.id().try_into().unwrap());
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
}
