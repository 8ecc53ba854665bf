//! Finding devices, capabilities that lead anywhere, and drivers over PCI.

use proptest::prelude::*;
use std::vec::Vec;

use super::capability::{Capabilities, StructureLocation};
use super::{ConfigSpace, Function, MapRegisters, MsiMessage, Pci, PciAddress, PciError, functions};
use crate::console::Console;
use crate::device::InitError;
use crate::testing::{
    CONFIG_VECTOR, DeviceModel, FakeDma, FakePci, MODERN, MSIX_ENTRY, ModelRegisters, SharedDevice,
    random_registers, virtio_capability,
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
fn devices_are_found_by_their_identifiers() {
    let model = console();
    let kind = |device, subsystem| {
        let bus = FakePci::new(&model, device, subsystem, &[]);
        functions(&bus).next().map(|function| function.id())
    };
    assert_eq!(kind(0x1043, 0x1100), Some(3));
    assert_eq!(kind(0x1003, 3), Some(3));
    assert_eq!(kind(0x1001, 2), Some(2));
    assert_eq!(kind(0x1040, 5), None);
    assert_eq!(kind(0x107f, 0), Some(63));
    assert_eq!(kind(0x1080, 3), None);
    assert_eq!(kind(0xfff, 3), None);
    assert_eq!(kind(0x1000, 0), None);
}

#[test]
fn other_vendors_and_bridges_are_none() {
    let bus = bus(&[]);
    bus.space.lock().unwrap()[0xe] = 0x01;
    assert_eq!(functions(&bus).count(), 0);
    bus.space.lock().unwrap()[0xe] = 0x80;
    assert_eq!(functions(&bus).count(), 1);
    bus.space.lock().unwrap()[0] = 0xf5;
    assert_eq!(functions(&bus).count(), 0);
}

/// A bus on which every function of every slot answers, and which records who was asked.
#[derive(Debug, Default)]
struct Crowded {
    asked: std::sync::Mutex<Vec<PciAddress>>,
    single: bool,
}

impl ConfigSpace for Crowded {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        let mut asked = self.asked.lock().unwrap();
        if asked.last() != Some(&address) {
            asked.push(address);
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
fn functions_beyond_the_first_are_looked_at_only_where_there_are_some() {
    assert_eq!(functions(&Crowded::default()).count(), 256);
    let single = Crowded { single: true, ..Crowded::default() };
    assert_eq!(functions(&single).count(), 32);
    assert!(single.asked.lock().unwrap().iter().all(|address| address.function == 0 && address.bus == 0));
}

#[test]
fn the_first_usable_structure_of_a_kind_counts() {
    let bus = bus(&MODERN());
    let found = Capabilities::read(&functions(&bus).next().unwrap());
    assert_eq!(found.common, Some(StructureLocation { bar: 4, offset: 0, length: 0x1000 }));
    assert_eq!(found.device, Some(StructureLocation { bar: 4, offset: 0x2000, length: 0x1000 }));
    assert_eq!((found.notify.map(|place| place.offset), found.notify_multiplier), (Some(0x3000), 4));
    assert_eq!(found.msix.map(|msix| (msix.bar, msix.table)), Some((1, 0x40)));
}

#[test]
fn a_console_works_with_a_message() {
    let bus = bus(&MODERN());
    bus.space.lock().unwrap()[7] = 0xf9;
    let pci = open(&bus, Some(MESSAGE)).unwrap();
    assert!(pci.uses_msix());
    let entry = |offset| bus.written(MSIX_ENTRY + offset);
    assert_eq!([0, 4, 8, 12].map(entry), [Some(0xfee0_0000), Some(0), Some(0x41), Some(0)]);
    // Memory, bus master, no line; ones in the status half would clear it.
    assert_eq!(bus.register(4), 0xf910_0000 | 1 << 1 | 1 << 2 | 1 << 10);
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let mut console = Console::new(pci, &dma).unwrap();
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
fn msix_is_switched_on_only_with_a_message() {
    let control = |bus: &FakePci| {
        let place = Capabilities::read(&functions(bus).next().unwrap()).msix.unwrap().capability;
        bus.register(place.into()) >> 30
    };
    let bus = bus(&MODERN());
    assert!(open(&bus, Some(MESSAGE)).is_ok());
    assert_eq!(control(&bus), 0b10);
    assert!(!open(&bus, None).unwrap().uses_msix());
    assert_eq!(control(&bus), 0);
    assert_eq!(bus.register(4) & 1 << 10, 0);
}

#[test]
fn a_console_works_with_a_line() {
    let mut capabilities = MODERN();
    capabilities.retain(|(id, _)| *id != 0x11);
    let bus = bus(&capabilities);
    let pci = open(&bus, Some(MESSAGE)).unwrap();
    assert!(!pci.uses_msix());
    assert_eq!(functions(&bus).next().unwrap().interrupt_line(), Some(11));
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let mut console = Console::new(pci, &dma).unwrap();
    assert_eq!(console.has_input(), Ok(false));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert!(bus.model.lock().unwrap().answer(0, b"x"));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: true, config: false }));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert_eq!(console.read_byte(), Ok(Some(b'x')));
}

#[test]
fn a_device_that_takes_no_vector_is_refused() {
    let mut bus = bus(&MODERN());
    bus.has_vectors = false;
    let dma = FakeDma::new(&bus.model.lock().unwrap().memory, 100);
    let error = Console::new(open(&bus, Some(MESSAGE)).unwrap(), &dma).unwrap_err();
    assert_eq!(error, InitError::Transport(TransportError::NoVector));
    assert!(Console::new(open(&bus, None).unwrap(), &dma).is_ok());
}

#[test]
fn legacy_devices_and_short_structures_are_refused() {
    assert_eq!(open(&bus(&[]), None).unwrap_err(), PciError::NoModernInterface);
    for missing in [1, 2, 3] {
        let mut capabilities = MODERN();
        capabilities.retain(|(id, bytes)| *id != 9 || bytes[1] != missing);
        assert_eq!(open(&bus(&capabilities), None).unwrap_err(), PciError::NoModernInterface);
    }
    let short = [
        virtio_capability(1, 4, 0, 0x37),
        virtio_capability(2, 4, 0x3000, 8),
        virtio_capability(3, 4, 0x1000, 1),
    ];
    assert_eq!(open(&bus(&short), None).unwrap_err(), PciError::NoModernInterface);
    // What the hal does not map, or what would be behind the end of all addresses.
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
fn a_doorbell_outside_of_its_structure_is_refused() {
    // The second queue's is at 12.
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
        Console::new(open(&bus, None).unwrap(), &dma).map(|_| ())
    };
    assert_eq!(start(14), Ok(()));
    assert_eq!(start(13), Err(InitError::Transport(TransportError::NoDoorbell)));
}

#[test]
fn devices_without_configuration_have_an_empty_one() {
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

/// Configuration space that says what it was told to; registers are rubbish.
#[derive(Debug)]
struct Hostile {
    space: Vec<u8>,
    seed: u64,
    reads: std::sync::Mutex<usize>,
}

impl ConfigSpace for Hostile {
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

impl MapRegisters for Hostile {
    type Registers = ModelRegisters;

    fn map(&self, address: u64, length: u64) -> Option<ModelRegisters> {
        assert!(address.is_multiple_of(4) || length < 64 << 10);
        assert!(length <= 64 << 10);
        Some(random_registers(usize::try_from(length).unwrap(), self.seed ^ address, &[]))
    }
}

/// 256 bytes in which links and virtio capabilities are likely.
fn space() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        3 => any::<[u8; 4]>(),
        4 => (0x40_u8.., 14_u8..24, 0_u8..6).prop_map(|(next, length, kind)| [9, next, length, kind]),
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
    fn rubbish_in_configuration_space_does_no_harm(space in space(), seed: u64) {
        let bus = Hostile { space, seed, reads: std::sync::Mutex::new(0) };
        let function = Function::new(&bus, PciAddress { bus: 0, slot: 0, function: 0 }).unwrap();
        let before = *bus.reads.lock().unwrap();
        let _found = Capabilities::read(&function);
        prop_assert!(*bus.reads.lock().unwrap() - before < 48 * 8 + 8);
        let Ok(pci) = Pci::new(&function, &bus, Some(MESSAGE)) else { return Ok(()) };
        let model = console();
        let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
        if let Ok(mut console) = Console::new(pci, &dma) {
            let _written = console.write(b"hello");
            let _cause = console.interrupt();
        }
    }

    #[test]
    fn lists_in_circles_end(at in (0x40_u8..).prop_map(|at| at & !3), next in 0x40_u8..) {
        let mut space = std::vec![0; 256];
        space[..4].copy_from_slice(&[0xf4, 0x1a, 0x43, 0x10]);
        space[6] = 0x10;
        space[0x34] = at;
        space[usize::from(at) + 1] = next;
        space[usize::from(next & !3) + 1] = at;
        let bus = Hostile { space, seed: 0, reads: std::sync::Mutex::new(0) };
        let function = Function::new(&bus, PciAddress { bus: 0, slot: 0, function: 0 }).unwrap();
        prop_assert_eq!(Capabilities::read(&function), Capabilities::default());
    }
}
