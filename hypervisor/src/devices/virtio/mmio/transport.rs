//! MMIO transport: a device on the bus, with the registers' lock, notifications and the interrupt.
//!
//! Several threads use a device at once. vCPU threads access its registers. A worker thread processes its
//! queues. A notification of the driver only signals an eventfd, the queue's kick. The worker sleeps until a
//! kick is signalled. Then it clears the kick, processes the available chains, and raises the interrupt if
//! the driver wants to be notified. The write of output may block for as long as its reader is slow, so
//! output is written after the lock is released.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INTERRUPT_STATUS, VIRTIO_MMIO_QUEUE_NOTIFY,
};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::{Interrupt, InterruptStatus, MmioRegisters, ServeOutcome};
use crate::devices::bus::BusDevice;
use crate::devices::virtio::{DeviceError, EventValidity, HostEvent, QueueProgress, QueueSink, VirtioDevice};

/// Offset of `InterruptStatus`.
const INTERRUPT_STATUS: u64 = VIRTIO_MMIO_INTERRUPT_STATUS as u64;

/// Offset of `InterruptACK`.
const INTERRUPT_ACK: u64 = VIRTIO_MMIO_INTERRUPT_ACK as u64;

/// Number of times that the worker processes a queue up to the work limit, before it handles the next event.
const MAX_ROUNDS: usize = 4;

/// MMIO transport of a device: the registers behind a lock, the eventfds of the driver's notifications, and
/// the interrupt line.
///
/// The lock is held while the device processes a queue, but not while output is written to a stream of the
/// host ([`QueueSink`]). A vCPU that notifies the device or handles its interrupt takes no lock.
#[derive(Debug)]
pub struct MmioTransport {
    registers: Mutex<MmioRegisters>,
    /// Sink of each queue that has one.
    sinks: Vec<Option<Box<dyn QueueSink>>>,
    /// Kick of each queue: the eventfd that an available buffer notification signals.
    kicks: Vec<EventFd>,
    interrupts: Arc<InterruptStatus>,
    interrupt: Box<dyn Interrupt>,
}

impl MmioTransport {
    /// Size in bytes of the register range: a page.
    pub const SIZE: u64 = 0x1000;

    /// Offset of `QueueNotify`, to which the driver writes the index of a queue as 32 bits.
    pub const QUEUE_NOTIFY: u64 = VIRTIO_MMIO_QUEUE_NOTIFY as u64;

    /// Creates the transport of a device, in its state after a reset.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors, or the device's queue sizes are not powers of two.
    pub fn new(
        device: Box<dyn VirtioDevice>,
        memory: GuestMemoryMmap,
        interrupt: Box<dyn Interrupt>,
    ) -> Result<Self, DeviceError> {
        let sinks = (0..device.queue_sizes().len()).map(|index| device.sink(index)).collect();
        let registers = MmioRegisters::new(device, memory)?;
        let new_kick = |_| EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC);
        let kicks = (0..registers.queue_count()).map(new_kick).collect::<io::Result<_>>()?;
        let interrupts = registers.interrupts();
        Ok(Self { registers: Mutex::new(registers), sinks, kicks, interrupts, interrupt })
    }

    /// Returns the kick of each queue. Signalling a kick has the effect of a write of the queue's index to
    /// [`Self::QUEUE_NOTIFY`], so a kick may be registered as an ioeventfd there.
    #[must_use]
    pub fn kicks(&self) -> &[EventFd] {
        &self.kicks
    }

    /// Signals the kick of a queue. The worker processes the queue then.
    pub fn kick(&self, index: usize) {
        if let Some(kick) = self.kicks.get(index) {
            // Fails only if the counter is at its maximum. Then the kick is pending anyway.
            let _: io::Result<()> = kick.write(1);
        }
    }

    /// Processes a queue, up to `MAX_ROUNDS` times the work limit. The worker must call [`Self::take_kick`]
    /// before this function.
    #[must_use]
    pub fn handle_queue(&self, index: usize) -> QueueProgress {
        for _ in 0..MAX_ROUNDS {
            let progress = self.serve(index);
            if progress != QueueProgress::Yielded {
                return progress;
            }
        }
        QueueProgress::Yielded
    }

    /// Clears the kick of a queue. The worker must clear the kick before it processes the queue: then
    /// processing finds every chain that the kick announces, and a later chain signals a new kick.
    pub fn take_kick(&self, index: usize) {
        if let Some(kick) = self.kicks.get(index) {
            // Fails if the kick was not signalled.
            let _: io::Result<u64> = kick.read();
        }
    }

    /// Processes all output queues until every chain that is available at the time of the call is used. May
    /// be called from any thread.
    pub fn drain(&self) {
        (0..self.kicks.len()).for_each(|index| self.drain_queue(index));
    }

    /// See [`VirtioDevice::host_event`].
    #[must_use]
    pub fn host_event(&self, index: usize) -> Option<HostEvent> {
        self.lock().host_event(index)
    }

    /// See [`VirtioDevice::host_ready`].
    pub fn host_ready(&self, index: usize, readiness: EventValidity) {
        self.lock().host_ready(index, readiness);
    }

    /// Does the same as [`Self::drain`] for one queue, if it is an output queue.
    pub fn drain_queue(&self, index: usize) {
        if !self.lock().is_output(index) {
            return;
        }
        // The guest may add chains meanwhile, so the number of rounds is bounded. Each round completes at
        // least one chain, so the rounds complete all chains that were available at the start.
        self.lock().lift_limits();
        let rounds = self.lock().queue_size(index);
        for _ in 0..=rounds {
            if self.serve(index) != QueueProgress::Yielded {
                return;
            }
        }
        // The worker processes chains that were added meanwhile.
        self.kick(index);
    }

    /// Finishes the stream of an output queue. No chain follows.
    pub fn finish_queue(&self, index: usize) {
        if self.lock().is_output(index) {
            self.lock().finish();
        }
        self.sinks.get(index).into_iter().flatten().for_each(|sink| sink.finish());
    }

    /// Processes a queue up to the work limit. Then raises an interrupt if one is due, after the lock is
    /// released.
    fn serve(&self, index: usize) -> QueueProgress {
        let ServeOutcome { progress, needs_interrupt } = self.serve_registers(index);
        if needs_interrupt {
            self.interrupt.raise();
        }
        progress
    }

    /// Processes a queue up to the work limit, and writes the output that the device has buffered to the
    /// queue's sink.
    fn serve_registers(&self, index: usize) -> ServeOutcome {
        let mut outcome = ServeOutcome { progress: QueueProgress::Done, needs_interrupt: false };
        let mut serve = || outcome = self.lock().serve(index);
        match self.sinks.get(index) {
            Some(Some(sink)) => sink.write_after(&mut serve),
            _ => serve(),
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, MmioRegisters> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the registers. Returns true if this made the device live (`DRIVER_OK`).
    fn write_registers(&self, offset: u64, data: &[u8]) -> bool {
        let mut registers = self.lock();
        let was_running = registers.is_running();
        registers.write(offset, data);
        !was_running && registers.is_running()
    }
}

impl BusDevice for MmioTransport {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match <&mut [u8; 4]>::try_from(&mut *data) {
            Ok(word) if offset == INTERRUPT_STATUS => {
                *word = self.interrupts.read().to_le_bytes();
            }
            _ => self.lock().read(offset, data),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let word = <[u8; 4]>::try_from(data).map(u32::from_le_bytes);
        match word {
            Ok(index) if offset == Self::QUEUE_NOTIFY => self.kick(hermit_interface::to_usize(index.into())),
            Ok(bits) if offset == INTERRUPT_ACK => self.interrupts.acknowledge(bits),
            _ if self.write_registers(offset, data) => {
                // The driver may have made chains available before `DRIVER_OK`, when their kicks had no
                // effect.
                (0..self.kicks.len()).for_each(|index| self.kick(index));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MmioTransport;
    use crate::devices::bus::BusDevice;
    use crate::devices::virtio::QueueProgress;
    use crate::devices::virtio::test_utils::{
        BUFFERS, EchoDevice, InterruptCounter, TestDriver, read, start, write,
    };

    /// Offsets of registers (virtio 1.2 §4.2.2).
    const INTERRUPT_STATUS: u64 = 0x60;
    const INTERRUPT_ACK: u64 = 0x64;

    /// A transport and the driver of its first queue.
    fn transport() -> (MmioTransport, TestDriver, InterruptCounter) {
        with_driver(TestDriver::new(16))
    }

    fn with_driver(driver: TestDriver) -> (MmioTransport, TestDriver, InterruptCounter) {
        let counter = InterruptCounter::default();
        let transport = MmioTransport::new(
            Box::new(EchoDevice::default()),
            driver.memory.clone(),
            Box::new(counter.clone()),
        );
        (transport.unwrap(), driver, counter)
    }

    /// Clears all kicks, and returns for each whether it was signalled.
    fn take_kicks(transport: &MmioTransport) -> Vec<bool> {
        transport.kicks().iter().map(|kick| kick.read().is_ok()).collect()
    }

    #[test]
    fn queue_notify_kicks_only_the_selected_queue() {
        let (transport, ..) = transport();
        write(&transport, MmioTransport::QUEUE_NOTIFY, 1);
        assert_eq!(take_kicks(&transport), [false, true]);
        for index in [2, u32::MAX] {
            write(&transport, MmioTransport::QUEUE_NOTIFY, index);
        }
        transport.write(MmioTransport::QUEUE_NOTIFY, &[0; 2]);
        transport.write(MmioTransport::QUEUE_NOTIFY, &[0; 8]);
        assert_eq!(take_kicks(&transport), [false, false]);
        transport.kick(0);
        transport.kick(usize::MAX);
        transport.take_kick(usize::MAX);
        transport.take_kick(0);
        assert_eq!(take_kicks(&transport), [false, false]);
    }

    #[test]
    fn notification_and_interrupt_registers_take_no_lock() {
        let (transport, ..) = transport();
        let _working = transport.lock();
        write(&transport, MmioTransport::QUEUE_NOTIFY, 0);
        assert_eq!(read(&transport, INTERRUPT_STATUS), 0);
        write(&transport, INTERRUPT_ACK, 3);
    }

    #[test]
    fn driver_ok_kicks_all_queues_once() {
        let (transport, ..) = transport();
        start(&transport, 2);
        assert_eq!(take_kicks(&transport), [true, true]);
        // A second write of the same status.
        write(&transport, 0x70, 0xf);
        assert_eq!(take_kicks(&transport), [false, false]);
    }

    #[test]
    fn used_buffer_raises_an_interrupt_until_acknowledged() {
        let (transport, mut driver, counter) = transport();
        start(&transport, 1);
        assert_eq!(transport.handle_queue(0), QueueProgress::Done);
        assert_eq!(counter.count(), 0);
        driver.send(&[(BUFFERS, 1, false)]);
        assert_eq!(transport.handle_queue(0), QueueProgress::Done);
        assert_eq!(counter.count(), 1);
        assert_eq!(read(&transport, INTERRUPT_STATUS), 1);
        write(&transport, INTERRUPT_ACK, 2);
        assert_eq!(read(&transport, INTERRUPT_STATUS), 1);
        write(&transport, INTERRUPT_ACK, 1);
        assert_eq!(read(&transport, INTERRUPT_STATUS), 0);
    }

    #[test]
    fn failed_device_raises_one_configuration_change_interrupt() {
        let (transport, mut driver, counter) = transport();
        start(&transport, 1);
        driver.set_available(17);
        assert_eq!(transport.handle_queue(0), QueueProgress::Done);
        assert_eq!((counter.count(), read(&transport, INTERRUPT_STATUS)), (1, 2));
        assert_eq!(transport.handle_queue(0), QueueProgress::Done);
        assert_eq!(counter.count(), 1);
    }

    #[test]
    fn busy_queue_yields_after_the_last_round() {
        let (transport, mut driver, _) = transport();
        start(&transport, 1);
        for _ in 0..16 {
            driver.send(&[(BUFFERS, 0x4_0000, false)]);
        }
        assert_eq!(transport.handle_queue(0), QueueProgress::Yielded);
        assert_eq!(driver.used().len(), 4);
    }

    #[test]
    fn drain_processes_output_queues_only() {
        let (transport, mut driver, _) = transport();
        start(&transport, 1);
        driver.send(&[(BUFFERS, 1, false)]);
        transport.drain();
        assert!(driver.used().is_empty());
        // The second queue is output, and has 8 descriptors.
        let (transport, mut driver, _) = with_driver(TestDriver::new(8));
        start(&transport, 2);
        for _ in 0..8 {
            driver.send(&[(BUFFERS, 0x4_0000, false)]);
        }
        transport.drain();
        assert_eq!(driver.used().len(), 8);
    }

    #[test]
    fn lock_free_registers_ignore_accesses_of_other_widths() {
        let (transport, ..) = transport();
        transport.interrupts.set_used_buffer();
        let mut data = [0x55; 8];
        transport.read(INTERRUPT_STATUS, &mut data);
        assert_eq!(data, [0; 8]);
        transport.write(INTERRUPT_ACK, &[1]);
        transport.write(INTERRUPT_ACK + 1, &[0xff; 4]);
        assert_eq!(read(&transport, INTERRUPT_STATUS), 1);
    }
}
