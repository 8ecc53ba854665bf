//! What happens when a processor reaches out of its memory: ports and device registers
//! ([`hermit_interface::machine`], [`hermit_interface::exit`]).

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};
use hermit_interface::machine::TEXT_PORT;
use vmm_sys_util::eventfd::EventFd;

use crate::devices::bus::Bus;
use crate::devices::console::TextPort;
use crate::stats::Exits;

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest gave a status.
    Exited(u8),
    /// Somebody asked for it.
    Stopped,
    /// The guest reset the machine: a fault that its kernel could not handle.
    Reset,
    /// A processor could not go on; the text says why.
    Failed(String),
    /// The guest tried to leave its sandbox; the text says how.
    Denied(String),
}

/// Everything of a machine that its processors share.
#[derive(Debug)]
pub struct Machine {
    status: AtomicU8,
    end: OnceLock<End>,
    ended: EventFd,
    bus: Bus,
    text: TextPort,
    exits: Exits,
}

impl Machine {
    /// A machine with these devices.
    ///
    /// # Errors
    ///
    /// If the host has no more events.
    pub fn new(bus: Bus, text: TextPort) -> io::Result<Self> {
        Ok(Self {
            status: AtomicU8::new(NOT_STARTED),
            end: OnceLock::new(),
            ended: EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?,
            bus,
            text,
            exits: Exits::default(),
        })
    }

    /// Ends the machine, unless it has ended: the first reason counts.
    pub fn finish(&self, end: End) {
        let _: Result<(), End> = self.end.set(end);
        // A counter that is full has been raised anyway.
        let _: io::Result<()> = self.ended.write(1);
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.get()
    }

    /// Readable once it has ended.
    pub const fn ended(&self) -> &EventFd {
        &self.ended
    }

    /// How often processors stopped.
    pub const fn exits(&self) -> &Exits {
        &self.exits
    }

    /// A processor wrote to a port. Ports that nobody has take everything.
    pub fn write_port(&self, port: u16, bytes: &[u8]) {
        match (port, bytes) {
            (TEXT_PORT, _) => self.text.write(bytes),
            (STATUS_PORT, &[status, ..]) => self.status.store(status, Ordering::Relaxed),
            (QUIT_PORT, _) => self.finish(End::Exited(self.status.load(Ordering::Relaxed))),
            _ => {}
        }
    }

    /// A processor read from a port. No port of this machine can be read.
    pub fn read_port(&self, _port: u16, bytes: &mut [u8]) {
        bytes.fill(0xff);
    }

    /// A processor wrote to an address without memory.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.bus.write(address, bytes);
    }

    /// A processor read from an address without memory.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        self.bus.read(address, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};
    use vm_memory::GuestMemoryMmap;
    use vmm_sys_util::eventfd::EventFd;

    use super::{End, Machine};
    use crate::devices::bus::Bus;
    use crate::devices::console::{Console, Output, TextPort};
    use crate::devices::virtio::MmioTransport;

    impl Machine {
        /// A machine with nothing on its bus, whose text nobody reads.
        pub(crate) fn bare() -> Self {
            let output = Output::new(Box::new(std::io::sink()));
            let console = Box::new(Console::new(output.clone(), None));
            let line = Box::new(EventFd::new(0).unwrap());
            let slot = MmioTransport::new(console, GuestMemoryMmap::new(), line).unwrap();
            Self::new(Bus::new(), TextPort::new(Arc::new(slot), output)).unwrap()
        }
    }

    #[test]
    fn the_first_end_counts() {
        let machine = Machine::bare();
        assert_eq!(machine.end(), None);
        machine.write_port(STATUS_PORT, &[7, 8]);
        machine.write_port(QUIT_PORT, &[0]);
        machine.finish(End::Stopped);
        assert_eq!(machine.end(), Some(&End::Exited(7)));
        assert_eq!(machine.ended().read().unwrap(), 2);
    }

    #[test]
    fn a_guest_that_gives_no_status_was_never_one() {
        let machine = Machine::bare();
        machine.write_port(STATUS_PORT, &[]);
        machine.write_port(0x3f8, b"x");
        machine.write_port(QUIT_PORT, &[]);
        assert_eq!(machine.end(), Some(&End::Exited(NOT_STARTED)));
    }

    #[test]
    fn no_port_can_be_read() {
        let mut bytes = [0; 4];
        Machine::bare().read_port(0x60, &mut bytes);
        assert_eq!(bytes, [0xff; 4]);
    }
}
