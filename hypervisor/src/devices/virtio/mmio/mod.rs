//! The registers of a virtio device on the bus (virtio 1.2, section 4.2.2, version 2).
//!
//! Pure: no lock, no descriptor of the host, no thread. Three registers are not here but in [`super::Slot`], because they
//! must answer while the device is at work: `QueueNotify`, `InterruptStatus`, `InterruptACK`.

mod features;
mod ring;
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
use self::ring::Ring;
use super::used::wants_interrupt;
use super::{DeviceError, HostEvent, InterruptStatus, Readiness, Served, VirtioDevice};
use crate::devices::report::Once;

/// `MagicValue`: "virt".
const MAGIC: u32 = u32::from_le_bytes(*b"virt");

/// `Version`: not the legacy interface.
const VERSION: u32 = 2;

/// `VendorID`: "uhyv".
const VENDOR: u32 = u32::from_le_bytes(*b"uhyv");

/// What one call of [`Registers::serve`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// How far the device has come.
    pub served: Served,
    /// Whether an interrupt is due.
    pub interrupt: bool,
}

impl Round {
    /// Nothing to do.
    const IDLE: Self = Self { served: Served::All, interrupt: false };
}

/// A device, its rings, and what the driver has told it so far.
#[derive(Debug)]
pub struct Registers {
    device: Box<dyn VirtioDevice>,
    memory: GuestMemoryMmap,
    rings: Vec<Ring>,
    /// `QueueSel`.
    selected: u32,
    features: Features,
    status: u32,
    interrupts: Arc<InterruptStatus>,
    /// `ConfigGeneration`.
    generation: u32,
    complaint: Once,
}

impl Registers {
    /// A device that has just been reset.
    ///
    /// # Errors
    ///
    /// The device's queue sizes are not powers of two.
    pub fn new(device: Box<dyn VirtioDevice>, memory: GuestMemoryMmap) -> Result<Self, DeviceError> {
        let rings = device.queue_sizes().iter().map(|&size| Ring::new(size)).collect::<Result<_, _>>()?;
        let features = Features::new(device.features());
        let interrupts = Arc::default();
        let complaint = Once::default();
        Ok(Self {
            device,
            memory,
            rings,
            selected: 0,
            features,
            status: 0,
            interrupts,
            generation: 0,
            complaint,
        })
    }

    /// Why there were interrupts.
    #[must_use]
    pub fn interrupts(&self) -> Arc<InterruptStatus> {
        Arc::clone(&self.interrupts)
    }

    /// How many queues the device has.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.rings.len()
    }

    /// The most descriptors that a queue can have.
    #[must_use]
    pub fn queue_size(&self, index: usize) -> u16 {
        self.rings.get(index).map_or(0, |ring| ring.queue().max_size())
    }

    /// Whether the driver is ready and nothing has gone wrong.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let relevant = VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_FAILED | VIRTIO_CONFIG_S_NEEDS_RESET;
        self.status & relevant == VIRTIO_CONFIG_S_DRIVER_OK
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
    pub fn host_ready(&mut self, index: usize, readiness: Readiness) {
        self.device.host_ready(index, readiness);
    }

    /// The guest reads. Registers have 32 bits and are read whole, else as zero; the configuration may be read in any width.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(offset) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.read_config(offset, data);
        } else if let (Ok(register), Ok(word)) = (u32::try_from(offset), <&mut [u8; 4]>::try_from(data)) {
            *word = self.read_register(register).to_le_bytes();
        }
    }

    /// The guest writes. What is not a whole register, or out of place in the device's state, is ignored.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if let Some(offset) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.write_config(offset, data);
        } else if let (Ok(register), Ok(word)) = (u32::try_from(offset), <[u8; 4]>::try_from(data)) {
            self.write_register(register, u32::from_le_bytes(word));
        }
    }

    /// Lets the device serve a queue for a while.
    pub fn serve(&mut self, index: usize) -> Round {
        if !self.is_running() {
            return Round::IDLE;
        }
        let Some(queue) = self.rings.get_mut(index).and_then(Ring::running) else { return Round::IDLE };
        match serve(&mut *self.device, index, queue, &self.memory) {
            Ok(mut round) => {
                if round.interrupt {
                    self.interrupts.used_buffers();
                }
                if self.device.take_change() {
                    self.generation = self.generation.wrapping_add(1);
                    self.interrupts.configuration_changed();
                    round.interrupt = true;
                }
                round
            }
            Err(error) => {
                self.fail(&error);
                Round { served: Served::All, interrupt: true }
            }
        }
    }

    fn read_register(&self, register: u32) -> u32 {
        let ring = self.ring();
        match register {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.device.device_type(),
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => self.features.offered_page(),
            VIRTIO_MMIO_QUEUE_NUM_MAX => ring.map_or(0, |ring| ring.queue().max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => ring.is_some_and(|ring| ring.queue().ready()).into(),
            VIRTIO_MMIO_STATUS => self.status,
            // There is no shared memory: its size and its address are all ones (section 4.2.2).
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
            VIRTIO_MMIO_QUEUE_SEL => self.selected = value,
            VIRTIO_MMIO_QUEUE_READY if value == 0 => self.stop_ring(),
            _ if self.is_setting_up() => self.write_ring(register, value),
            _ => {}
        }
    }

    /// Writes a register of the selected queue, which must not have started.
    fn write_ring(&mut self, register: u32, value: u32) {
        let index = self.ring_index();
        let Some(ring) = self.rings.get_mut(index).filter(|ring| !ring.queue().ready()) else { return };
        match register {
            VIRTIO_MMIO_QUEUE_NUM => ring.set_size(value),
            VIRTIO_MMIO_QUEUE_DESC_LOW => ring.descriptors.set_low(value),
            VIRTIO_MMIO_QUEUE_DESC_HIGH => ring.descriptors.set_high(value),
            VIRTIO_MMIO_QUEUE_AVAIL_LOW => ring.available.set_low(value),
            VIRTIO_MMIO_QUEUE_AVAIL_HIGH => ring.available.set_high(value),
            VIRTIO_MMIO_QUEUE_USED_LOW => ring.used.set_low(value),
            VIRTIO_MMIO_QUEUE_USED_HIGH => ring.used.set_high(value),
            VIRTIO_MMIO_QUEUE_READY if value == 1 => {
                if let Err(error) = ring.start(&self.memory) {
                    self.fail(&error);
                }
            }
            _ => {}
        }
    }

    /// The driver does not want the selected queue any more.
    fn stop_ring(&mut self) {
        let index = self.ring_index();
        if let Some(ring) = self.rings.get_mut(index) {
            ring.stop();
        }
    }

    fn ring_index(&self) -> usize {
        hermit_interface::to_usize(self.selected.into())
    }

    fn ring(&self) -> Option<&Ring> {
        self.rings.get(self.ring_index())
    }

    /// Whether the driver may choose features (section 3.1.1, step 4).
    fn is_negotiating(&self) -> bool {
        self.status & !VIRTIO_CONFIG_S_ACKNOWLEDGE == VIRTIO_CONFIG_S_DRIVER
    }

    /// Whether the driver may set up queues (section 3.1.1, step 7).
    fn is_setting_up(&self) -> bool {
        let rest = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;
        self.status & !rest == VIRTIO_CONFIG_S_FEATURES_OK
    }

    /// Section 2.1: the driver sets one bit after the other, or starts anew with zero.
    fn write_status(&mut self, value: u32) {
        if value == 0 {
            return self.reset();
        }
        let clears = self.status & !value & !VIRTIO_CONFIG_S_NEEDS_RESET != 0;
        if clears {
            return;
        }
        let steps = [
            (VIRTIO_CONFIG_S_ACKNOWLEDGE, 0),
            (VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_ACKNOWLEDGE),
            (VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_DRIVER),
            (VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK),
        ];
        for (step, before) in steps {
            if value & !self.status & step != 0 && self.status & before == before {
                self.take_step(step);
            }
        }
        self.status |= value & VIRTIO_CONFIG_S_FAILED;
    }

    fn take_step(&mut self, step: u32) {
        let is_broken = self.status & (VIRTIO_CONFIG_S_FAILED | VIRTIO_CONFIG_S_NEEDS_RESET) != 0;
        if is_broken || (step == VIRTIO_CONFIG_S_FEATURES_OK && !self.features.are_acceptable()) {
            return;
        }
        self.status |= step;
        if step == VIRTIO_CONFIG_S_DRIVER_OK {
            let event_index = self.features.has_event_index();
            self.rings.iter_mut().for_each(|ring| ring.set_event_index(event_index));
            self.device.activate(self.features.accepted());
        }
    }

    fn reset(&mut self) {
        self.device.reset();
        self.rings.iter_mut().for_each(Ring::reset);
        self.selected = 0;
        self.features = Features::new(self.device.features());
        self.status = 0;
        self.interrupts.acknowledge(u32::MAX);
    }

    /// The device is of no use until it is reset (section 2.1.2).
    fn fail(&mut self, error: &DeviceError) {
        let device = self.device.device_type();
        self.complaint.warn(format_args!("virtio device of type {device} needs a reset: {error}"));
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.interrupts.configuration_changed();
        }
    }
}

/// Lets a device serve a queue with the driver's notifications off.
fn serve(
    device: &mut dyn VirtioDevice,
    index: usize,
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
) -> Result<Round, DeviceError> {
    queue.disable_notification(memory)?;
    let before = queue.next_used();
    let served = device.process(index, queue, memory)?;
    let interrupt = wants_interrupt(queue, memory, before)?;
    // The guest may have added something before it could see that it has to notify again.
    let more = served == Served::All && queue.enable_notification(memory)?;
    Ok(Round { served: if more { Served::Partly } else { served }, interrupt })
}

#[cfg(test)]
mod tests;
