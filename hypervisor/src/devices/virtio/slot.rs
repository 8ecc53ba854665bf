//! A device in its place on the bus.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INTERRUPT_STATUS, VIRTIO_MMIO_QUEUE_NOTIFY,
};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::mmio::{Registers, Round};
use super::{DeviceError, HostEvent, Interrupt, InterruptStatus, Readiness, Served, VirtioDevice};
use crate::devices::bus::BusDevice;

/// Offset of `InterruptStatus`.
const STATUS: u64 = VIRTIO_MMIO_INTERRUPT_STATUS as u64;

/// Offset of `InterruptACK`.
const ACKNOWLEDGE: u64 = VIRTIO_MMIO_INTERRUPT_ACK as u64;

/// How often a queue is served before it is another one's turn.
const ROUNDS: usize = 4;

/// The register machine behind a lock, and what ties it to the rest of the hypervisor.
///
/// The lock is held while the device works, and that may mean waiting for the host. A CPU that notifies the device
/// or handles its interrupt takes no lock.
#[derive(Debug)]
pub struct Slot {
    registers: Mutex<Registers>,
    /// A notification of the driver for each queue.
    kicks: Vec<EventFd>,
    interrupts: Arc<InterruptStatus>,
    interrupt: Box<dyn Interrupt>,
}

impl Slot {
    /// Size of the registers in bytes: a page.
    pub const SIZE: u64 = 0x1000;

    /// Offset of `QueueNotify`, to which a driver writes a queue's index as 32 bits.
    pub const NOTIFY: u64 = VIRTIO_MMIO_QUEUE_NOTIFY as u64;

    /// Puts a device behind registers.
    ///
    /// # Errors
    ///
    /// The host has no more descriptors, or the device's queue sizes are not powers of two.
    pub fn new(
        device: Box<dyn VirtioDevice>,
        memory: GuestMemoryMmap,
        interrupt: Box<dyn Interrupt>,
    ) -> Result<Self, DeviceError> {
        let registers = Registers::new(device, memory)?;
        let new_kick = |_| EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC);
        let kicks = (0..registers.queue_count()).map(new_kick).collect::<io::Result<_>>()?;
        let interrupts = registers.interrupts();
        Ok(Self { registers: Mutex::new(registers), kicks, interrupts, interrupt })
    }

    /// By which descriptor each queue's notifications arrive: what is written to [`Self::NOTIFY`] with the
    /// queue's index may as well be signalled here (an ioeventfd).
    #[must_use]
    pub fn kicks(&self) -> &[EventFd] {
        &self.kicks
    }

    /// Lets the worker serve this queue.
    pub fn kick(&self, index: usize) {
        if let Some(kick) = self.kicks.get(index) {
            // Fails only if the counter is full: then it will be served anyway.
            let _: io::Result<()> = kick.write(1);
        }
    }

    /// Serves a queue for a while. The worker calls it after [`Self::take_kick`].
    #[must_use]
    pub fn handle_queue(&self, index: usize) -> Served {
        for _ in 0..ROUNDS {
            let served = self.serve(index);
            if served != Served::Partly {
                return served;
            }
        }
        Served::Partly
    }

    /// Forgets notifications that have arrived, before they are followed.
    pub fn take_kick(&self, index: usize) {
        if let Some(kick) = self.kicks.get(index) {
            // Fails if there was none.
            let _: io::Result<u64> = kick.read();
        }
    }

    /// Serves everything that the guest has sent so far. May be called from any thread.
    pub fn drain(&self) {
        let is_output = |&index: &usize| self.lock().is_output(index);
        for index in (0..self.kicks.len()).filter(is_output) {
            self.drain_queue(index);
        }
    }

    /// See [`VirtioDevice::host_event`].
    #[must_use]
    pub fn host_event(&self, index: usize) -> Option<HostEvent> {
        self.lock().host_event(index)
    }

    /// See [`VirtioDevice::host_ready`].
    pub fn host_ready(&self, index: usize, readiness: Readiness) {
        self.lock().host_ready(index, readiness);
    }

    fn drain_queue(&self, index: usize) {
        // Each round gives back a chain at the least: this is enough for all that was there when we came.
        let rounds = self.lock().queue_size(index);
        for _ in 0..=rounds {
            if self.serve(index) != Served::Partly {
                return;
            }
        }
        // What has come meanwhile is the worker's.
        self.kick(index);
    }

    /// Serves a queue once. The lock is no longer held when the interrupt is raised.
    fn serve(&self, index: usize) -> Served {
        let Round { served, interrupt } = self.lock().serve(index);
        if interrupt {
            self.interrupt.raise();
        }
        served
    }

    fn lock(&self) -> MutexGuard<'_, Registers> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the machine; returns whether the driver has just become ready.
    fn write_registers(&self, offset: u64, data: &[u8]) -> bool {
        let mut registers = self.lock();
        let before = registers.is_running();
        registers.write(offset, data);
        !before && registers.is_running()
    }
}

impl BusDevice for Slot {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match <&mut [u8; 4]>::try_from(&mut *data) {
            Ok(word) if offset == STATUS => {
                *word = self.interrupts.read().to_le_bytes();
            }
            _ => self.lock().read(offset, data),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let word = <[u8; 4]>::try_from(data).map(u32::from_le_bytes);
        match word {
            Ok(index) if offset == Self::NOTIFY => self.kick(hermit_interface::to_usize(index.into())),
            Ok(reasons) if offset == ACKNOWLEDGE => self.interrupts.acknowledge(reasons),
            _ if self.write_registers(offset, data) => {
                // A driver may have filled its queues before it was ready.
                (0..self.kicks.len()).for_each(|index| self.kick(index));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slot;
    use crate::devices::bus::BusDevice;
    use crate::devices::virtio::Served;
    use crate::devices::virtio::testing::{BUFFERS, Counter, Driver, Echo, read, start, write};

    const INTERRUPT_STATUS: u64 = 0x60;
    const INTERRUPT_ACK: u64 = 0x64;

    /// A slot and the driver of its first queue.
    fn slot() -> (Slot, Driver, Counter) {
        with_driver(Driver::new(16))
    }

    fn with_driver(driver: Driver) -> (Slot, Driver, Counter) {
        let counter = Counter::default();
        let slot = Slot::new(Box::new(Echo::default()), driver.memory.clone(), Box::new(counter.clone()));
        (slot.unwrap(), driver, counter)
    }

    /// Which queues have been kicked. They are not any more.
    fn kicked(slot: &Slot) -> Vec<bool> {
        slot.kicks().iter().map(|kick| kick.read().is_ok()).collect()
    }

    #[test]
    fn notifications_reach_the_queue_and_no_other() {
        let (slot, ..) = slot();
        write(&slot, Slot::NOTIFY, 1);
        assert_eq!(kicked(&slot), [false, true]);
        for index in [2, u32::MAX] {
            write(&slot, Slot::NOTIFY, index);
        }
        slot.write(Slot::NOTIFY, &[0; 2]);
        slot.write(Slot::NOTIFY, &[0; 8]);
        assert_eq!(kicked(&slot), [false, false]);
        slot.kick(0);
        slot.kick(usize::MAX);
        slot.take_kick(usize::MAX);
        slot.take_kick(0);
        assert_eq!(kicked(&slot), [false, false]);
    }

    #[test]
    fn notifications_and_interrupts_take_no_lock() {
        let (slot, ..) = slot();
        let _working = slot.lock();
        write(&slot, Slot::NOTIFY, 0);
        assert_eq!(read(&slot, INTERRUPT_STATUS), 0);
        write(&slot, INTERRUPT_ACK, 3);
    }

    #[test]
    fn queues_are_looked_at_once_the_driver_is_ready() {
        let (slot, ..) = slot();
        start(&slot, 2);
        assert_eq!(kicked(&slot), [true, true]);
        // A status that does not change is no start.
        write(&slot, 0x70, 0xf);
        assert_eq!(kicked(&slot), [false, false]);
    }

    #[test]
    fn an_interrupt_is_raised_and_acknowledged() {
        let (slot, mut driver, counter) = slot();
        start(&slot, 1);
        assert_eq!(slot.handle_queue(0), Served::All);
        assert_eq!(counter.count(), 0);
        driver.send(&[(BUFFERS, 1, false)]);
        assert_eq!(slot.handle_queue(0), Served::All);
        assert_eq!(counter.count(), 1);
        assert_eq!(read(&slot, INTERRUPT_STATUS), 1);
        write(&slot, INTERRUPT_ACK, 2);
        assert_eq!(read(&slot, INTERRUPT_STATUS), 1);
        write(&slot, INTERRUPT_ACK, 1);
        assert_eq!(read(&slot, INTERRUPT_STATUS), 0);
    }

    #[test]
    fn a_device_that_fails_says_so_by_an_interrupt() {
        let (slot, mut driver, counter) = slot();
        start(&slot, 1);
        driver.set_available(17);
        assert_eq!(slot.handle_queue(0), Served::All);
        assert_eq!((counter.count(), read(&slot, INTERRUPT_STATUS)), (1, 2));
        assert_eq!(slot.handle_queue(0), Served::All);
        assert_eq!(counter.count(), 1);
    }

    #[test]
    fn a_busy_queue_does_not_hold_the_worker() {
        let (slot, mut driver, _) = slot();
        start(&slot, 1);
        for _ in 0..16 {
            driver.send(&[(BUFFERS, 0x4_0000, false)]);
        }
        assert_eq!(slot.handle_queue(0), Served::Partly);
        assert_eq!(driver.used().len(), 4);
    }

    #[test]
    fn draining_serves_all_output_and_no_input() {
        let (slot, mut driver, _) = slot();
        start(&slot, 1);
        driver.send(&[(BUFFERS, 1, false)]);
        slot.drain();
        assert!(driver.used().is_empty());
        // The second queue is output, and has 8 descriptors.
        let (slot, mut driver, _) = with_driver(Driver::new(8));
        start(&slot, 2);
        for _ in 0..8 {
            driver.send(&[(BUFFERS, 0x4_0000, false)]);
        }
        slot.drain();
        assert_eq!(driver.used().len(), 8);
    }

    #[test]
    fn odd_accesses_of_the_fast_registers_do_nothing() {
        let (slot, ..) = slot();
        slot.interrupts.used_buffers();
        let mut data = [0x55; 8];
        slot.read(INTERRUPT_STATUS, &mut data);
        assert_eq!(data, [0; 8]);
        slot.write(INTERRUPT_ACK, &[1]);
        slot.write(INTERRUPT_ACK + 1, &[0xff; 4]);
        assert_eq!(read(&slot, INTERRUPT_STATUS), 1);
    }
}
