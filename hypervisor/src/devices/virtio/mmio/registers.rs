//! The registers of the MMIO transport (virtio 1.2 §4.2.2, version 2) as a state machine without side effects
//! on the host.
//!
//! The driver initialises a device by setting bits of `Status` in a fixed order (virtio 1.2 §3.1.1). Each
//! state permits writes only to certain registers: to features after `DRIVER`, to virtqueues after
//! `FEATURES_OK`. All other writes are ignored. After `DRIVER_OK` the queues are processed
//! ([`MmioRegisters::serve`]). If the driver violates the specification, or the host fails, the device sets
//! `DEVICE_NEEDS_RESET`, and stops until the driver resets it.
//!
//! `QueueNotify`, `InterruptStatus` and `InterruptACK` are in [`super::MmioTransport`]: an access to them
//! must not wait for the device.

mod features;
mod queue;

use std::sync::Arc;

use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FAILED,
    VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
};
use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_CONFIG, VIRTIO_MMIO_CONFIG_GENERATION, VIRTIO_MMIO_DEVICE_FEATURES,
    VIRTIO_MMIO_DEVICE_FEATURES_SEL, VIRTIO_MMIO_DEVICE_ID, VIRTIO_MMIO_DRIVER_FEATURES,
    VIRTIO_MMIO_DRIVER_FEATURES_SEL, VIRTIO_MMIO_MAGIC_VALUE, VIRTIO_MMIO_QUEUE_AVAIL_HIGH,
    VIRTIO_MMIO_QUEUE_AVAIL_LOW, VIRTIO_MMIO_QUEUE_DESC_HIGH, VIRTIO_MMIO_QUEUE_DESC_LOW,
    VIRTIO_MMIO_QUEUE_NUM, VIRTIO_MMIO_QUEUE_NUM_MAX, VIRTIO_MMIO_QUEUE_READY, VIRTIO_MMIO_QUEUE_SEL,
    VIRTIO_MMIO_QUEUE_USED_HIGH, VIRTIO_MMIO_QUEUE_USED_LOW, VIRTIO_MMIO_SHM_BASE_HIGH,
    VIRTIO_MMIO_SHM_BASE_LOW, VIRTIO_MMIO_SHM_LEN_HIGH, VIRTIO_MMIO_SHM_LEN_LOW, VIRTIO_MMIO_STATUS,
    VIRTIO_MMIO_VENDOR_ID, VIRTIO_MMIO_VERSION,
};
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

use self::features::Features;
use self::queue::QueueRegisters;
use super::InterruptStatus;
use crate::devices::virtio::used_ring::needs_interrupt;
use crate::devices::virtio::{DeviceError, EventValidity, HostEvent, QueueProgress, VirtioDevice};
use crate::devices::warn_once::WarnOnce;

/// `MagicValue`: "virt".
const MAGIC: u32 = u32::from_le_bytes(*b"virt");

/// `Version`: 2, not the legacy interface.
const VERSION: u32 = 2;

/// `VendorID`: "uhyv".
const VENDOR: u32 = u32::from_le_bytes(*b"uhyv");

/// Result of [`MmioRegisters::serve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOutcome {
    /// State of the queue.
    pub progress: QueueProgress,
    /// True if the caller must raise an interrupt.
    pub needs_interrupt: bool,
}

impl ServeOutcome {
    /// Outcome if the queue is not ready, or the device is not running.
    const IDLE: Self = Self { progress: QueueProgress::Done, needs_interrupt: false };
}

/// A device, its virtqueues, and the state of its registers.
#[derive(Debug)]
pub struct MmioRegisters {
    device: Box<dyn VirtioDevice>,
    memory: GuestMemoryMmap,
    queues: Vec<QueueRegisters>,
    /// `QueueSel`.
    queue_select: u32,
    features: Features,
    /// `Status`.
    status: u32,
    interrupts: Arc<InterruptStatus>,
    /// `ConfigGeneration`.
    generation: u32,
    failure: WarnOnce,
}

impl MmioRegisters {
    /// Creates the registers in their state after a device reset.
    ///
    /// # Errors
    ///
    /// The device's queue sizes are not powers of two.
    pub fn new(device: Box<dyn VirtioDevice>, memory: GuestMemoryMmap) -> Result<Self, DeviceError> {
        let queues =
            device.queue_sizes().iter().map(|&size| QueueRegisters::new(size)).collect::<Result<_, _>>()?;
        let features = Features::new(device.features());
        let interrupts = Arc::default();
        Ok(Self {
            device,
            memory,
            queues,
            queue_select: 0,
            features,
            status: 0,
            interrupts,
            generation: 0,
            failure: WarnOnce::default(),
        })
    }

    /// Returns `InterruptStatus`. The transport accesses it without the lock around the other registers.
    #[must_use]
    pub fn interrupts(&self) -> Arc<InterruptStatus> {
        Arc::clone(&self.interrupts)
    }

    /// Returns the number of virtqueues.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Returns the maximum number of descriptors of a virtqueue (`QueueNumMax`).
    #[must_use]
    pub fn queue_size(&self, index: usize) -> u16 {
        self.queues.get(index).map_or(0, |queue| queue.queue().max_size())
    }

    /// Returns true if the device is live: `DRIVER_OK` is set, and neither `FAILED` nor `DEVICE_NEEDS_RESET`.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let relevant = VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_FAILED | VIRTIO_CONFIG_S_NEEDS_RESET;
        self.status & relevant == VIRTIO_CONFIG_S_DRIVER_OK
    }

    /// See [`VirtioDevice::lift_limits`].
    pub fn lift_limits(&mut self) {
        self.device.lift_limits();
    }

    /// See [`VirtioDevice::finish`].
    pub fn finish(&mut self) {
        self.device.finish();
    }

    /// See [`VirtioDevice::is_output`].
    #[must_use]
    pub fn is_output(&self, index: usize) -> bool {
        self.device.is_output(index)
    }

    /// See [`VirtioDevice::host_event`].
    #[must_use]
    pub fn host_event(&self, index: usize) -> Option<HostEvent> {
        self.device.host_event(index)
    }

    /// See [`VirtioDevice::host_ready`].
    pub fn host_ready(&mut self, index: usize, readiness: EventValidity) {
        self.device.host_ready(index, readiness);
    }

    /// Reads `data.len()` bytes at `offset`. The configuration space permits any access width. Other
    /// registers have 32 bits, and a read of another width returns zero.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(offset) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.read_config(offset, data);
        } else if let (Ok(register), Ok(word)) = (u32::try_from(offset), <&mut [u8; 4]>::try_from(data)) {
            *word = self.read_register(register).to_le_bytes();
        }
    }

    /// Writes `data` at `offset`. Ignores a write whose width is not the register's, or that the device's
    /// state forbids.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if let Some(offset) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.write_config(offset, data);
        } else if let (Ok(register), Ok(word)) = (u32::try_from(offset), <[u8; 4]>::try_from(data)) {
            self.write_register(register, u32::from_le_bytes(word));
        }
    }

    /// Processes a queue until about [`crate::devices::virtio::WORK_LIMIT`] bytes are processed.
    pub fn serve(&mut self, index: usize) -> ServeOutcome {
        if !self.is_running() {
            return ServeOutcome::IDLE;
        }
        let Some(queue) = self.queues.get_mut(index).and_then(QueueRegisters::ready_queue) else {
            return ServeOutcome::IDLE;
        };
        match serve(&mut *self.device, index, queue, &self.memory) {
            Ok(mut outcome) => {
                if outcome.needs_interrupt {
                    self.interrupts.set_used_buffer();
                }
                if self.device.take_config_change() {
                    // A driver reads the generation before and after it reads the configuration space, to
                    // detect a change in between.
                    self.generation = self.generation.wrapping_add(1);
                    self.interrupts.set_config_change();
                    outcome.needs_interrupt = true;
                }
                outcome
            }
            Err(error) => {
                self.fail(&error);
                ServeOutcome { progress: QueueProgress::Done, needs_interrupt: true }
            }
        }
    }

    fn read_register(&self, register: u32) -> u32 {
        let queue = self.selected_queue();
        match register {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.device.device_type(),
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => self.features.offered_page(),
            VIRTIO_MMIO_QUEUE_NUM_MAX => queue.map_or(0, |queue| queue.queue().max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => queue.is_some_and(|queue| queue.queue().ready()).into(),
            VIRTIO_MMIO_STATUS => self.status,
            // Without shared memory regions, length and base read as -1 (virtio 1.2 §4.2.2).
            VIRTIO_MMIO_SHM_LEN_LOW
            | VIRTIO_MMIO_SHM_LEN_HIGH
            | VIRTIO_MMIO_SHM_BASE_LOW
            | VIRTIO_MMIO_SHM_BASE_HIGH => u32::MAX,
            VIRTIO_MMIO_CONFIG_GENERATION => self.generation,
            _ => 0,
        }
    }

    fn write_register(&mut self, register: u32, value: u32) {
        match register {
            VIRTIO_MMIO_STATUS => self.write_status(value),
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.features.select_offered(value),
            VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.features.select_accepted(value),
            VIRTIO_MMIO_DRIVER_FEATURES if self.is_negotiating() => self.features.accept_page(value),
            VIRTIO_MMIO_QUEUE_SEL => self.queue_select = value,
            // Stopping a queue is the only change of a queue that is permitted while the device runs.
            VIRTIO_MMIO_QUEUE_READY if value == 0 => self.stop_queue(),
            _ if self.is_setting_up() => self.write_queue(register, value),
            _ => {}
        }
    }

    /// Writes a register of the selected queue, unless the queue is ready.
    fn write_queue(&mut self, register: u32, value: u32) {
        let index = self.queue_index();
        let Some(queue) = self.queues.get_mut(index).filter(|queue| !queue.queue().ready()) else { return };
        match register {
            VIRTIO_MMIO_QUEUE_NUM => queue.set_size(value),
            VIRTIO_MMIO_QUEUE_DESC_LOW => queue.descriptors.set_low(value),
            VIRTIO_MMIO_QUEUE_DESC_HIGH => queue.descriptors.set_high(value),
            VIRTIO_MMIO_QUEUE_AVAIL_LOW => queue.available.set_low(value),
            VIRTIO_MMIO_QUEUE_AVAIL_HIGH => queue.available.set_high(value),
            VIRTIO_MMIO_QUEUE_USED_LOW => queue.used.set_low(value),
            VIRTIO_MMIO_QUEUE_USED_HIGH => queue.used.set_high(value),
            VIRTIO_MMIO_QUEUE_READY if value == 1 => {
                if let Err(error) = queue.start(&self.memory) {
                    self.fail(&error);
                }
            }
            _ => {}
        }
    }

    /// Writes 0 to `QueueReady` of the selected queue.
    fn stop_queue(&mut self) {
        let index = self.queue_index();
        if let Some(queue) = self.queues.get_mut(index) {
            queue.stop();
        }
    }

    fn queue_index(&self) -> usize {
        hermit_interface::to_usize(self.queue_select.into())
    }

    fn selected_queue(&self) -> Option<&QueueRegisters> {
        self.queues.get(self.queue_index())
    }

    /// Returns true if the driver may accept features (virtio 1.2 §3.1.1, step 4).
    fn is_negotiating(&self) -> bool {
        self.status & !VIRTIO_CONFIG_S_ACKNOWLEDGE == VIRTIO_CONFIG_S_DRIVER
    }

    /// Returns true if the driver may set up virtqueues (virtio 1.2 §3.1.1, step 7).
    fn is_setting_up(&self) -> bool {
        let rest = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;
        self.status & !rest == VIRTIO_CONFIG_S_FEATURES_OK
    }

    /// Writes `Status` (virtio 1.2 §2.1). The value 0 resets the device. Other writes set bits in the order
    /// of the initialisation; a write that clears single bits is ignored.
    fn write_status(&mut self, value: u32) {
        if value == 0 {
            return self.reset();
        }
        let clears = self.status & !value & !VIRTIO_CONFIG_S_NEEDS_RESET != 0;
        if clears {
            return;
        }
        // Each bit, and the bit that must be set before it.
        let steps = [
            (VIRTIO_CONFIG_S_ACKNOWLEDGE, 0),
            (VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_ACKNOWLEDGE),
            (VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_DRIVER),
            (VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK),
        ];
        for (step, before) in steps {
            if value & !self.status & step != 0 && self.status & before == before {
                self.set_status_bit(step);
            }
        }
        self.status |= value & VIRTIO_CONFIG_S_FAILED;
    }

    /// Sets a bit of `Status`, unless the device or the driver has failed, or the features are not
    /// acceptable.
    fn set_status_bit(&mut self, bit: u32) {
        let is_broken = self.status & (VIRTIO_CONFIG_S_FAILED | VIRTIO_CONFIG_S_NEEDS_RESET) != 0;
        if is_broken || (bit == VIRTIO_CONFIG_S_FEATURES_OK && !self.features.are_acceptable()) {
            return;
        }
        self.status |= bit;
        if bit == VIRTIO_CONFIG_S_DRIVER_OK {
            let event_index = self.features.has_event_index();
            self.queues.iter_mut().for_each(|queue| queue.set_event_index(event_index));
            self.device.activate(self.features.accepted());
        }
    }

    fn reset(&mut self) {
        self.device.reset();
        self.queues.iter_mut().for_each(QueueRegisters::reset);
        self.queue_select = 0;
        self.features = Features::new(self.device.features());
        self.status = 0;
        self.interrupts.acknowledge(u32::MAX);
    }

    /// Stops the device until its reset (`DEVICE_NEEDS_RESET`, virtio 1.2 §2.1.2).
    fn fail(&mut self, error: &DeviceError) {
        let device = self.device.device_type();
        self.failure.warn(format_args!("virtio device of type {device} needs a reset: {error}"));
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        // The driver is notified only after `DRIVER_OK` (virtio 1.2 §2.1.2).
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.interrupts.set_config_change();
        }
    }
}

/// Processes a queue. The driver's notifications are disabled meanwhile, because the device examines the ring
/// anyway.
fn serve(
    device: &mut dyn VirtioDevice,
    index: usize,
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
) -> Result<ServeOutcome, DeviceError> {
    queue.disable_notification(memory)?;
    let before = queue.next_used();
    let progress = device.process(index, queue, memory)?;
    let needs_interrupt = needs_interrupt(queue, memory, before)?;
    // The driver may have added chains after the device's last check. It did not notify the device, because
    // notifications were still disabled, so the ring must be checked again.
    let has_more = progress == QueueProgress::Done && queue.enable_notification(memory)?;
    Ok(ServeOutcome { progress: if has_more { QueueProgress::Yielded } else { progress }, needs_interrupt })
}

#[cfg(test)]
mod tests;
