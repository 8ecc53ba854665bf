//! Guests that behave: ports, registers, interrupts, processors.

use crate::guest::Guest;
use crate::host::run;

#[test]
fn a_guest_ends_with_its_status() {
    for status in [0, 42] {
        let outcome = run(&Guest::image(status, |_| Ok(())), &[]);
        assert_eq!((outcome.code, &*outcome.errors), (Some(status.into()), ""));
    }
}
