//! Probing of register windows, and drivers over virtio-mmio.

use core::task::Waker;
use proptest::prelude::*;

use super::{Mmio, MmioError};
use crate::block::BlockDriver;
use crate::console::ConsoleDriver;
use crate::device::InitError;
use crate::entropy::EntropyDriver;
use crate::testing::{DeviceModel, FakeDma, ModelRegisters, mmio_registers, random_registers};
use crate::transport::{InterruptCause, TransportError};

/// Registers; the first three read as `first`.
fn window(size: usize, first: [u32; 3]) -> ModelRegisters {
    ModelRegisters::new(size, move |offset, _, _| first[offset / 4])
}

#[test]
fn probe_refuses_unusable_windows() {
    let virt = u32::from_le_bytes(*b"virt");
    let open = |size, first| Mmio::new(window(size, first)).map(|_| ()).unwrap_err();
    assert_eq!(open(0xff, [virt, 2, 3]), MmioError::NotVirtio);
    assert_eq!(open(0x100, [virt + 1, 2, 3]), MmioError::NotVirtio);
    assert_eq!(open(0x100, [virt, 1, 3]), MmioError::Version(1));
    assert_eq!(open(0x100, [virt, 2, 0]), MmioError::NoDevice);
    assert_eq!(open(0x100, [virt, 2, 0x1_0003]), MmioError::NoDevice);
    assert!(Mmio::new(window(0x100, [virt, 2, 3])).is_ok());
}

#[test]
fn console_works_over_mmio() {
    let model = DeviceModel::new(3, 0, &[64, 64]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    let mut console = ConsoleDriver::new(Mmio::new(mmio_registers(&model)).unwrap(), &dma).unwrap();
    assert_eq!(console.write(b"hello"), Ok(5));
    assert_eq!(model.lock().unwrap().drain(1), b"hello");
    assert_eq!(console.has_input(), Ok(false));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert!(model.lock().unwrap().answer(0, b"x"));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: true, config: false }));
    assert_eq!(console.interrupt(), Ok(InterruptCause::default()));
    assert_eq!(console.read_byte(), Ok(Some(b'x')));
}

#[test]
fn exclusive_line_is_acknowledged_without_device_access() {
    let model = DeviceModel::new(3, 0, &[64, 64]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    let transport = Mmio::new(mmio_registers(&model)).unwrap().with_exclusive_line();
    let mut console = ConsoleDriver::new(transport, &dma).unwrap();
    assert!(model.lock().unwrap().answer(0, b"x"));
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: true, config: false }));
    assert_eq!(console.read_byte(), Ok(Some(b'x')));
    // If no queue has used buffers, the cause may be a configuration change.
    assert_eq!(console.interrupt(), Ok(InterruptCause { queues: false, config: true }));
}

#[test]
fn block_capacity_is_read_from_config() {
    let model = DeviceModel::new(2, 0, &[64]);
    model.lock().unwrap().config = 0x12_3456_789a_u64.to_le_bytes().to_vec();
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    let block = BlockDriver::new(Mmio::new(mmio_registers(&model)).unwrap(), &dma, 2).unwrap();
    assert_eq!(block.capacity(), 0x12_3456_789a);
}

#[test]
fn enabled_queue_is_refused() {
    let fixed: &[_] = &[(0, 0x7472_6976), (4, 2), (8, 4), (0x10, u32::MAX), (0x34, 8), (0x44, 1)];
    let mut status = 0;
    let registers = ModelRegisters::new(0x100, move |offset, _, value| match (offset, value) {
        (0x70, Some(value)) => core::mem::replace(&mut status, value),
        (0x70, None) => status,
        _ => fixed.iter().find(|(register, _)| *register == offset).map_or(0, |(_, value)| *value),
    });
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 10);
    let error = EntropyDriver::new(Mmio::new(registers).unwrap(), &dma).unwrap_err();
    assert_eq!(error, InitError::Transport(TransportError::QueueInUse));
}

proptest! {
    #[test]
    fn random_registers_never_panic(seed: u64, resets: bool) {
        const FIXED: [&[(usize, u32)]; 3] = [
            &[(0, 0x7472_6976), (4, 2), (8, 2), (0x10, u32::MAX), (0x44, 0), (0xfc, 1)],
            &[(0, 0x7472_6976), (4, 2), (8, 3), (0x10, u32::MAX), (0x44, 0)],
            &[(0, 0x7472_6976), (4, 2), (8, 4), (0x10, u32::MAX), (0x44, 0)],
        ];
        let [block, console, entropy] = FIXED.map(|fixed| {
            let random = random_registers(0x200, seed, fixed);
            let mut status = 0;
            Mmio::new(ModelRegisters::new(0x200, move |offset, width, value| {
                use crate::registers::DeviceRegisters;
                match (offset, value) {
                    (0x70, Some(value)) if resets => core::mem::replace(&mut status, value),
                    (0x70, None) if resets => status,
                    (_, None) if width == 4 => random.read_u32(offset),
                    _ => 0,
                }
            })).unwrap()
        });
        let model = DeviceModel::new(4, 0, &[]);
        let dma = FakeDma::new(&model.lock().unwrap().memory, 2000);
        if let Ok(mut block) = BlockDriver::new(block, &dma, 3) {
            prop_assert!(block.max_transfer().is_multiple_of(block.block_size()));
            let _ticket = block.submit_read(0, block.max_transfer() / 512, Waker::noop());
            let _cause = block.interrupt();
        }
        if let Ok(mut console) = ConsoleDriver::new(console, &dma) {
            let _written = console.write(b"hello");
            let _cause = console.interrupt();
        }
        if let Ok(mut entropy) = EntropyDriver::new(entropy, &dma) {
            prop_assert_eq!(entropy.request(16), Ok(()));
            let _cause = entropy.interrupt();
        }
    }
}
