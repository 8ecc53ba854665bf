//! Discovery, hostile capability lists, and drivers over virtio-pci.
//!
//! Most tests use a model of a bus with one device. The capability list comes from the device and is
//! untrusted, so the tests give it lists with errors, which the driver must reject.

use proptest::prelude::*;
use std::vec::Vec;

use super::capability::{Capabilities, StructureLocation};
use super::{
    ConfigSpace, Function, MapRegisters, MsiMessage, Pci, PciAddress, PciError, functions, replace_message,
};
use crate::console::ConsoleDriver;
use crate::device::InitError;
use crate::testing::{
    CONFIG_VECTOR, DeviceModel, FakeDma, FakePci, MSIX_ENTRY, ModelRegisters, SharedDevice, random_registers,
    typical_capabilities, virtio_capability,
};
use crate::transport::{InterruptCause, Transport, TransportError};

const MESSAGE: MsiMessage = MsiMessage { address: 0xfee0_0000, data: 0x41 };

fn console() -> SharedDevice {
    DeviceModel::new(3, 0, &[64, 64])
}

fn bus(capabilities: &[(u8, Vec<u8>)]) -> FakePci {
    FakePci::new(&console(), 0x1043, 0, capabilities)
}

fn open(bus: &FakePci, message: Option<MsiMessage>) -> Result<Pci<ModelRegisters>, PciError> {
    Pci::new(&functions(bus).next().unwrap(), bus, message)
}

#[test]
fn device_id_is_read_from_pci_ids() {
    let model = console();
    let device_id = |device, subsystem| {
        let bus = FakePci::new(&model, device, subsystem, &[]);
        functions(&bus).next().map(|function| function.id())
    };
    assert_eq!(device_id(0x1043, 0x1100), Some(3));
    assert_eq!(device_id(0x1003, 3), Some(3));
    assert_eq!(device_id(0x1001, 2), Some(2));
    assert_eq!(device_id(0x1040, 5), None);
    assert_eq!(device_id(0x107f, 0), Some(63));
    assert_eq!(device_id(0x1080, 3), None);
    assert_eq!(device_id(0xfff, 3), None);
    assert_eq!(device_id(0x1000, 0), None);
}

#[test]
fn other_vendors_and_bridges_are_not_discovered() {
    let bus = bus(&[]);
    bus.space.lock().unwrap()[0xe] = 0x01;
    assert_eq!(functions(&bus).count(), 0);
    bus.space.lock().unwrap()[0xe] = 0x80;
    assert_eq!(functions(&bus).count(), 1);
    bus.space.lock().unwrap()[0] = 0xf5;
    assert_eq!(functions(&bus).count(), 0);
}

/// A bus on which every function of every device answers, and which records the probed addresses.
#[derive(Debug, Default)]
struct FullBus {
    probed: std::sync::Mutex<Vec<PciAddress>>,
    single: bool,
}

impl ConfigSpace for FullBus {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        let mut probed = self.probed.lock().unwrap();
        if probed.last() != Some(&address) {
            probed.push(address);
        }
        match offset {
            0 => 0x1044_1af4,
            0xc if !self.single => 0x80_0000,
            _ => 0,
        }
    }

    fn write(&self, _address: PciAddress, _offset: u8, _value: u32) {}
}

#[test]
fn only_function_0_of_single_function_devices_is_probed() {
    assert_eq!(functions(&FullBus::default()).count(), 256);
    let single = FullBus { single: true, ..FullBus::default() };
    assert_eq!(functions(&single).count(), 32);
    assert!(single.probed.lock().unwrap().iter().all(|address| address.function == 0 && address.bus == 0));
}

#[test]
fn first_usable_structure_of_each_type_is_used() {
    let bus = bus(&typical_capabilities());
    let found = Capabilities::read(&functions(&bus).next().unwrap());
    assert_eq!(found.common, Some(StructureLocation { bar: 4, offset: 0, length: 0x1000 }));
    assert_eq!(found.device, Some(StructureLocation { bar: 4, offset: 0x2000, length: 0x1000 }));
    assert_eq!((found.notify.map(|place| place.offset), found.notify_multiplier), (Some(0x3000), 4));
    assert_eq!(found.msix.map(|msix| (msix.bar, msix.table)), Some((1, 0x40)));
}

#[test]
fn console_works_with_msix() {
    let bus = bus(&typical_capabilities());
    bus.space.lock().unwrap()[7] = 0xf9;
    let pci = open(&bus, Some(MESSAGE)).unwrap();
    assert!(pci.uses_msix());
    let entry = |offset| bus.written(MSIX_ENTRY + offset);
    assert_eq!([0, 4, 8, 12].map(entry), [Some(0xfee0_0000), Some(0), Some(0x41), Some(0)]);
    // Memory Space Enable, Bus Master Enable and Interrupt Disable are set, and zeros are written to the
    // status half.
    assert_eq!(bus.register(4), 0xf910_0000 | 1 << 1 | 1 << 2 | 1 << 10);
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let mut console = ConsoleDriver::new(pci, &dma).unwrap();
    assert_eq!(bus.written(CONFIG_VECTOR), Some(0));
    assert_eq!(bus.written(CONFIG_VECTOR + 0xa), Some(0));
    assert_eq!(console.write(b"hello"), Ok(5));
    assert_eq!(bus.model.lock().unwrap().drain(1), b"hello");
    assert_eq!(console.has_input(), Ok(false));
    assert!(bus.model.lock().unwrap().answer(0, b"x"));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: true, config: false }));
    assert_eq!(console.read_byte(), Ok(Some(b'x')));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: false, config: true }));
}

#[test]
fn message_of_a_function_is_replaced() {
    let bus = bus(&typical_capabilities());
    open(&bus, Some(MESSAGE)).unwrap();
    let other = MsiMessage { address: 0xfee0_1000, data: 0x42 };
    assert_eq!(replace_message(&functions(&bus).next().unwrap(), &bus, other), Ok(()));
    let entry = |offset| bus.written(MSIX_ENTRY + offset);
    assert_eq!([0, 4, 8, 12].map(entry), [Some(0xfee0_1000), Some(0), Some(0x42), Some(0)]);
    let without = FakePci::new(&console(), 0x1043, 0, &[]);
    let replaced = replace_message(&functions(&without).next().unwrap(), &without, other);
    assert_eq!(replaced, Err(PciError::NotMapped));
}

#[test]
fn msix_is_enabled_only_with_message() {
    let control = |bus: &FakePci| {
        let place = Capabilities::read(&functions(bus).next().unwrap()).msix.unwrap().capability;
        bus.register(place.into()) >> 30
    };
    let bus = bus(&typical_capabilities());
    assert!(open(&bus, Some(MESSAGE)).is_ok());
    assert_eq!(control(&bus), 0b10);
    assert!(!open(&bus, None).unwrap().uses_msix());
    assert_eq!(control(&bus), 0);
    assert_eq!(bus.register(4) & 1 << 10, 0);
}

#[test]
fn console_works_with_intx() {
    let mut capabilities = typical_capabilities();
    capabilities.retain(|(id, _)| *id != 0x11);
    let bus = bus(&capabilities);
    let pci = open(&bus, Some(MESSAGE)).unwrap();
    assert!(!pci.uses_msix());
    assert_eq!(functions(&bus).next().unwrap().interrupt_line(), Some(11));
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let mut console = ConsoleDriver::new(pci, &dma).unwrap();
    assert_eq!(console.has_input(), Ok(false));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert!(bus.model.lock().unwrap().answer(0, b"x"));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: true, config: false }));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert_eq!(console.read_byte(), Ok(Some(b'x')));
}

#[test]
fn refused_vector_fails_initialization() {
    let mut bus = bus(&typical_capabilities());
    bus.accepts_vectors = false;
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let error = ConsoleDriver::new(open(&bus, Some(MESSAGE)).unwrap(), &dma).unwrap_err();
    assert_eq!(error, InitError::Transport(TransportError::NoVector));
    assert!(ConsoleDriver::new(open(&bus, None).unwrap(), &dma).is_ok());
}

#[test]
fn missing_or_short_structures_are_refused() {
    assert_eq!(open(&bus(&[]), None).unwrap_err(), PciError::NoModernInterface);
    for missing in [1, 2, 3] {
        let mut capabilities = typical_capabilities();
        capabilities.retain(|(id, bytes)| *id != 9 || bytes[1] != missing);
        assert_eq!(open(&bus(&capabilities), None).unwrap_err(), PciError::NoModernInterface);
    }
    let short = [
        virtio_capability(1, 4, 0, 0x37),
        virtio_capability(2, 4, 0x3000, 8),
        virtio_capability(3, 4, 0x1000, 1),
    ];
    assert_eq!(open(&bus(&short), None).unwrap_err(), PciError::NoModernInterface);
    // A range that the hal does not map, and one that exceeds the address space.
    for offset in [0x7000, 0xffff_fffc] {
        let wrong = [
            virtio_capability(1, 4, offset, 0x38),
            virtio_capability(2, 4, 0x3000, 8),
            virtio_capability(3, 4, 0x1000, 1),
        ];
        assert_eq!(open(&bus(&wrong), None).unwrap_err(), PciError::NotMapped);
    }
}

#[test]
fn doorbell_outside_notify_structure_is_refused() {
    // The second virtqueue's register is at offset 12.
    let capabilities = |length| {
        [
            virtio_capability(1, 4, 0, 0x38),
            virtio_capability(2, 4, 0x3000, length),
            virtio_capability(3, 4, 0x1000, 1),
        ]
    };
    let start = |length| {
        let bus = bus(&capabilities(length));
        let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
        ConsoleDriver::new(open(&bus, None).unwrap(), &dma).map(|_| ())
    };
    assert_eq!(start(14), Ok(()));
    assert_eq!(start(13), Err(InitError::Transport(TransportError::NoDoorbell)));
}

#[test]
fn missing_config_structure_reads_as_empty() {
    let pci = open(
        &bus(&[
            virtio_capability(1, 4, 0, 0x38),
            virtio_capability(2, 4, 0x3000, 64),
            virtio_capability(3, 4, 0x1000, 1),
        ]),
        None,
    )
    .unwrap();
    assert_eq!((pci.config().read_u8(0), pci.config().read_u64(0)), (None, None));
    assert_eq!(pci.config().read_u32(usize::MAX), None);
}

/// Configuration space with given contents; mapped registers read as random values.
#[derive(Debug)]
struct HostileBus {
    space: Vec<u8>,
    seed: u64,
    reads: std::sync::Mutex<usize>,
}

impl ConfigSpace for HostileBus {
    fn read(&self, _address: PciAddress, offset: u8) -> u32 {
        assert_eq!(offset % 4, 0);
        *self.reads.lock().unwrap() += 1;
        let place = usize::from(offset);
        u32::from_le_bytes(self.space[place..place + 4].try_into().unwrap())
    }

    fn write(&self, _address: PciAddress, offset: u8, _value: u32) {
        assert_eq!(offset % 4, 0);
    }
}

impl MapRegisters for HostileBus {
    type Registers = ModelRegisters;

    fn map(&self, address: u64, length: u64) -> Result<ModelRegisters, PciError> {
        assert!(address.is_multiple_of(4) || length < 64 << 10);
        assert!(length <= 64 << 10);
        Ok(random_registers(usize::try_from(length).unwrap(), self.seed ^ address, &[]))
    }
}

/// 256 bytes in which links and virtio capabilities are likely.
fn space() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        3 => any::<[u8; 4]>(),
        4 => (0x40_u8.., 14_u8..24, 0_u8..6).prop_map(|(next, length, device_id)| [9, next, length, device_id]),
        1 => (0x40_u8..).prop_map(|next| [0x11, next, 0, 0]),
        2 => (0_u8..7).prop_map(|bar| [bar, 0, 0, 0]),
    ];
    prop::collection::vec(word, 64).prop_map(|words| {
        let mut space = words.concat();
        space[..4].copy_from_slice(&[0xf4, 0x1a, 0x43, 0x10]);
        space[6] |= 0x10;
        space[0xe] = 0;
        space
    })
}

proptest! {
    #[test]
    fn random_config_space_never_panics(space in space(), seed: u64) {
        let bus = HostileBus { space, seed, reads: std::sync::Mutex::new(0) };
        let function = Function::new(&bus, PciAddress { bus: 0, slot: 0, function: 0 }).unwrap();
        let before = *bus.reads.lock().unwrap();
        let _found = Capabilities::read(&function);
        prop_assert!(*bus.reads.lock().unwrap() - before < 48 * 8 + 8);
        let Ok(pci) = Pci::new(&function, &bus, Some(MESSAGE)) else { return Ok(()) };
        let model = console();
        let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
        if let Ok(mut console) = ConsoleDriver::new(pci, &dma) {
            let _written = console.write(b"hello");
            let _cause = console.interrupt();
        }
    }

    #[test]
    fn circular_capability_list_terminates(at in (0x40_u8..).prop_map(|at| at & !3), next in 0x40_u8..) {
        let mut space = std::vec![0; 256];
        space[..4].copy_from_slice(&[0xf4, 0x1a, 0x43, 0x10]);
        space[6] = 0x10;
        space[0x34] = at;
        space[usize::from(at) + 1] = next;
        space[usize::from(next & !3) + 1] = at;
        let bus = HostileBus { space, seed: 0, reads: std::sync::Mutex::new(0) };
        let function = Function::new(&bus, PciAddress { bus: 0, slot: 0, function: 0 }).unwrap();
        prop_assert_eq!(Capabilities::read(&function), Capabilities::default());
    }
}
