//! Dispatch of I/O exits: ports ([`hermit_interface::machine`], [`hermit_interface::exit`]) and device
//! registers.
//!
//! All vCPU threads share one [`IoManager`], and call it when the guest accesses a port, or an address
//! without memory. Ports are for the few operations that every guest needs: text output, exit, and the return
//! of memory. Devices have registers on the [`Bus`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
use hermit_interface::machine::{ERROR_TEXT_PORT, RETURN_PORT, TEXT_PORT, decode_returned};

use crate::devices::bus::Bus;
use crate::devices::console::TextPorts;
use crate::devices::power_button::PowerButton;
use crate::memory::Memory;
use crate::vcpu::shutdown::{ShutdownCause, VmHandle};

/// Ports and device registers of a VM.
#[derive(Debug)]
pub struct IoManager {
    vm: Arc<VmHandle>,
    /// Exit status that the guest has last set.
    status: AtomicU8,
    bus: Bus,
    text: TextPorts,
    power_button: Arc<PowerButton>,
    memory: Memory,
}

impl IoManager {
    /// Creates the dispatcher for the devices on `bus`. When the guest writes to the quit port, `vm` is shut
    /// down. When it writes to the return port, a part of `memory` is returned to the host.
    #[must_use]
    pub fn new(
        vm: Arc<VmHandle>,
        bus: Bus,
        text: TextPorts,
        power_button: PowerButton,
        memory: Memory,
    ) -> Self {
        let power_button = Arc::new(power_button);
        Self { vm, status: AtomicU8::new(NOT_STARTED), bus, text, power_button, memory }
    }

    /// Returns the power button. The guest enables it with a write to a port.
    #[must_use]
    pub fn power_button(&self) -> Arc<PowerButton> {
        Arc::clone(&self.power_button)
    }

    /// Writes to a port. Writes to unassigned ports are ignored.
    pub fn pio_write(&self, port: u16, bytes: &[u8]) {
        match (port, bytes) {
            (TEXT_PORT, _) => self.text.output.write(bytes),
            (ERROR_TEXT_PORT, _) => self.text.error.write(bytes),
            (SHUTDOWN_HANDLED_PORT, _) => self.power_button.enable(),
            (STATUS_PORT, &[status, ..]) => self.status.store(status, Ordering::Relaxed),
            (QUIT_PORT, _) => {
                self.vm.shut_down(ShutdownCause::Exited(self.status.load(Ordering::Relaxed)));
            }
            (RETURN_PORT, &[a, b, c, d]) => self.return_memory(u32::from_le_bytes([a, b, c, d])),
            _ => {}
        }
    }

    /// Returns memory to the host: the range that `word`, written to [`RETURN_PORT`], encodes. Ignores an
    /// invalid word.
    fn return_memory(&self, word: u32) {
        if let Some(returned) = decode_returned(word) {
            self.memory.discard(returned.start, returned.size);
        }
    }

    /// Writes text to a text port if the host's stream takes the text without blocking. Returns true if it
    /// was written.
    pub fn try_pio_write(&self, port: u16, text: &[u8]) -> bool {
        match port {
            TEXT_PORT => self.text.output.try_write(text),
            ERROR_TEXT_PORT => self.text.error.try_write(text),
            _ => false,
        }
    }

    /// Reads from a port. No port is readable, so the result is all ones.
    pub fn pio_read(&self, _port: u16, bytes: &mut [u8]) {
        bytes.fill(0xff);
    }

    /// Writes to an address without memory.
    pub fn mmio_write(&self, address: u64, bytes: &[u8]) {
        self.bus.write(address, bytes);
    }

    /// Reads from an address without memory.
    pub fn mmio_read(&self, address: u64, bytes: &mut [u8]) {
        self.bus.read(address, bytes);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
    use hermit_interface::machine::{RETURN_UNIT, encode_returned};
    use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
    use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

    use super::{IoManager, Memory, PowerButton, RETURN_PORT, ShutdownCause, VmHandle};
    use crate::devices::bus::Bus;
    use crate::devices::console::{ConsoleDevice, Output, TextPort, TextPorts};
    use crate::devices::virtio::MmioTransport;

    /// Returns an I/O manager without devices, which discards text.
    pub(crate) fn io_manager() -> (IoManager, Arc<VmHandle>) {
        let output = Output::new(Box::new(std::io::sink()));
        let console = Box::new(ConsoleDevice::new(output.clone(), None));
        let line = Box::new(EventFd::new(0).unwrap());
        let console = MmioTransport::new(console, GuestMemoryMmap::new(), line).unwrap();
        let vm = Arc::new(VmHandle::new().unwrap());
        let button = PowerButton::on(Box::new(EventFd::new(0).unwrap()));
        let text = TextPort::new(vec![Arc::new(console)], output);
        let text = TextPorts { output: text.clone(), error: text };
        let memory = Memory::shared("8M".parse().unwrap()).unwrap();
        (IoManager::new(Arc::clone(&vm), Bus::new(), text, button, memory), vm)
    }

    #[test]
    fn power_button_has_no_effect_before_the_guest_enables_it() {
        let line = EventFd::new(EFD_NONBLOCK).unwrap();
        let button = Arc::new(PowerButton::on(Box::new(line.try_clone().unwrap())));
        let io = IoManager { power_button: Arc::clone(&button), ..io_manager().0 };
        assert!(!button.press());
        assert!(line.read().is_err());
        io.pio_write(SHUTDOWN_HANDLED_PORT, &[1]);
        assert!(button.press());
        assert_eq!(line.read().unwrap(), 1);
    }

    #[test]
    fn first_shutdown_cause_is_kept() {
        let (io, vm) = io_manager();
        assert_eq!(vm.shutdown_cause(), None);
        io.pio_write(STATUS_PORT, &[7, 8]);
        io.pio_write(QUIT_PORT, &[0]);
        vm.shut_down(ShutdownCause::Requested);
        assert_eq!(vm.shutdown_cause(), Some(&ShutdownCause::Exited(7)));
        assert_eq!(vm.shutdown_event().read().unwrap(), 2);
    }

    #[test]
    fn quit_without_status_exits_with_not_started() {
        let (io, vm) = io_manager();
        io.pio_write(STATUS_PORT, &[]);
        io.pio_write(0x3f8, b"x");
        io.pio_write(QUIT_PORT, &[]);
        assert_eq!(vm.shutdown_cause(), Some(&ShutdownCause::Exited(NOT_STARTED)));
    }

    #[test]
    fn return_port_takes_one_word() {
        let io = io_manager().0;
        io.memory.guest().write_obj(1_u64, GuestAddress(3 * RETURN_UNIT)).unwrap();
        let resident = |bytes: &[u8]| {
            io.pio_write(RETURN_PORT, bytes);
            io.memory.resident().unwrap()
        };
        let word = |start| encode_returned(start, RETURN_UNIT).unwrap().to_le_bytes();
        let right = word(3 * RETURN_UNIT);
        let beyond_memory = word(8 << 20);
        for wrong in [&right[..3], &[right, right].concat(), &[0; 4], &[0xff; 4], &beyond_memory] {
            assert_eq!(resident(wrong), 0x1000);
        }
        assert_eq!(resident(&right), 0);
    }

    #[test]
    fn port_reads_return_all_ones() {
        let mut bytes = [0; 4];
        io_manager().0.pio_read(0x60, &mut bytes);
        assert_eq!(bytes, [0xff; 4]);
    }
}
