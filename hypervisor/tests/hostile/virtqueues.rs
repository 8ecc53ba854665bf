//! Malformed virtqueues.

use iced_x86::code_asm::{al, byte_ptr, dword_ptr, eax, rax, rbx};

use crate::driver::{DRIVER_OK, Descriptor, INDIRECT, NEXT, NOTIFY, Queue, Rings, STATUS, WRITE};
use crate::guest::{Assembled, BUFFERS, GuestBuilder};
use crate::host::Host;

/// Exit status of a guest whose entropy device still works at its end.
const WORKED: u8 = 42;

/// End of guest memory.
const END: u64 = 32 << 20;

/// The queue under test, an indirect table, and its data.
const RINGS: Rings = Rings::at(BUFFERS);
const TABLE: u64 = BUFFERS + 0x1000;
const DATA: u64 = BUFFERS + 0x2000;
/// The valid queue of the entropy device, and its data.
const VALID: Rings = Rings::at(BUFFERS + 0x8000);
const RANDOM: u64 = BUFFERS + 0x9000;

/// The queues of all devices.
const QUEUES: [Queue; 6] =
    [Queue::INPUT, Queue::OUTPUT, Queue::RANDOM, Queue::DISK, Queue::RECEIVEQ, Queue::TRANSMITQ];

/// Runs a guest, after which the entropy device must still work and the disk must be unchanged.
fn run(assemble: impl FnOnce(&mut GuestBuilder) -> Assembled) {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", 16);
    host.option("--block");
    host.option(&disk.name());
    host.network();
    let image = GuestBuilder::image(WORKED, |guest| {
        assemble(guest)?;
        fetch_random_numbers(guest)
    });
    assert_eq!(host.run(&image), WORKED.into());
    assert!(disk.is_unchanged());
}

/// Reads random bytes from the entropy device. Exits with status 1 or 2 unless they arrive.
fn fetch_random_numbers(guest: &mut GuestBuilder) -> Assembled {
    let mut arrived = guest.code.create_label();
    guest.clear(VALID.descriptors, 0x600)?;
    guest.write64(RANDOM, 0)?;
    guest.describe(VALID.descriptors, &[(RANDOM, 8, WRITE, 0)])?;
    guest.set_up(Queue::RANDOM, VALID)?;
    guest.offer(Queue::RANDOM, VALID, &[0], 1)?;
    guest.wait_for(VALID, 1)?;
    guest.code.mov(rbx, RANDOM)?;
    guest.code.mov(rax, iced_x86::code_asm::qword_ptr(rbx))?;
    guest.code.test(rax, rax)?;
    guest.code.jne(arrived)?;
    guest.exit(2)?;
    guest.code.set_label(&mut arrived)?;
    guest.code.nop()
}

/// Initialises a device with these rings, and makes a chain of these descriptors available.
fn try_rings(guest: &mut GuestBuilder, queue: Queue, rings: Rings, descriptors: &[Descriptor]) -> Assembled {
    guest.describe(RINGS.descriptors, descriptors)?;
    guest.write16(RINGS.available + 2, 0)?;
    guest.set_up(queue, rings)?;
    guest.offer(queue, RINGS, &[0, 1, 2, 3, 4, 5, 6, 7], 1)?;
    guest.linger(queue, 50)
}

#[test]
fn rings_outside_memory_leave_other_devices_working() {
    let addresses = [0, END - 16, END, 0xd000_0000, 0xffff_ffff_ffff_fff0, u64::MAX, BUFFERS + 1];
    let rings = addresses.into_iter().flat_map(|address| {
        [
            Rings { descriptors: address, ..RINGS },
            Rings { available: address, ..RINGS },
            Rings { used: address, ..RINGS },
        ]
    });
    for queue in QUEUES {
        run(|guest| {
            rings.clone().try_for_each(|rings| try_rings(guest, queue, rings, &[(DATA, 16, WRITE, 0)]))
        });
    }
}

#[test]
fn rings_of_invalid_size_or_overlapping_leave_other_devices_working() {
    for queue in QUEUES {
        run(|guest| {
            for size in [0, 1, 3, 7, 256, 0x8000, 0xffff, 0x1_0001, u32::MAX] {
                try_rings(guest, queue, Rings { size, ..RINGS }, &[(DATA, 16, WRITE, 0)])?;
            }
            let overlapping = Rings { available: BUFFERS, used: BUFFERS, ..RINGS };
            try_rings(guest, queue, overlapping, &[(DATA, 16, WRITE, 0)])?;
            // The buffer overlaps the queue.
            try_rings(guest, queue, RINGS, &[(BUFFERS, 0x1000, WRITE, 0)])
        });
    }
}

/// Malformed descriptor chains.
const CHAINS: [&[Descriptor]; 14] = [
    // Loops.
    &[(DATA, 16, WRITE | NEXT, 0)],
    &[(DATA, 16, NEXT, 1), (DATA, 16, WRITE | NEXT, 0)],
    &[(DATA, 0, NEXT, 1), (DATA, 0, NEXT, 0)],
    // `next` outside the table.
    &[(DATA, 16, WRITE | NEXT, 8)],
    &[(DATA, 16, NEXT, 0xffff)],
    // Buffers outside memory, wholly or in part.
    &[(END - 8, 16, WRITE, 0)],
    &[(0xd000_0000, 4096, WRITE, 0)],
    &[(u64::MAX - 4, 16, 0, 0)],
    &[(0, u32::MAX, WRITE, 0)],
    &[(DATA, 16, NEXT, 1), (0, u32::MAX, WRITE, 0)],
    // Indirect tables: of the maximum size, of an invalid size, within themselves.
    &[(TABLE, u32::MAX - 15, INDIRECT, 0)],
    &[(TABLE, 17, INDIRECT, 0)],
    &[(END - 16, 4096, INDIRECT, 0)],
    &[(BUFFERS, 16, INDIRECT | NEXT | WRITE, 0)],
];

#[test]
fn malformed_chains_leave_other_devices_working() {
    for queue in QUEUES {
        run(|guest| CHAINS.into_iter().try_for_each(|chain| try_rings(guest, queue, RINGS, chain)));
    }
}

#[test]
fn looping_indirect_tables_leave_other_devices_working() {
    let tables: [&[Descriptor]; 4] = [
        &[(TABLE, 4096, INDIRECT, 0)],
        &[(DATA, 1, WRITE | NEXT, 0)],
        &[(DATA, 1, NEXT, 1), (DATA, 1, NEXT, 2), (DATA, 1, NEXT, 0xff)],
        &[(DATA, 1 << 20, WRITE | NEXT, 1), (DATA, 1 << 20, WRITE | NEXT, 0)],
    ];
    let sizes = [16, 64, 4096, 1 << 20, u32::MAX - 15];
    for queue in QUEUES {
        run(|guest| {
            tables.into_iter().try_for_each(|table| {
                guest.describe(TABLE, table)?;
                sizes
                    .into_iter()
                    .try_for_each(|size| try_rings(guest, queue, RINGS, &[(TABLE, size, INDIRECT, 0)]))
            })
        });
    }
}

#[test]
fn jumping_available_index_leaves_other_devices_working() {
    for queue in QUEUES {
        run(|guest| {
            for index in [9u16, 0x7fff, 0x8000, 0xffff] {
                try_rings(guest, queue, RINGS, &[(DATA, 16, WRITE, 0)])?;
                guest.offer(queue, RINGS, &[0xffff, 8, 9], index)?;
                guest.linger(queue, 50)?;
                guest.offer(queue, RINGS, &[0], 0)?;
                guest.linger(queue, 50)?;
            }
            Ok(())
        });
    }
}

/// Writes all values in ascending order, then status bits out of order, then resets while requests are processed.
#[test]
fn invalid_status_writes_leave_other_devices_working() {
    for queue in QUEUES {
        run(|guest| {
            guest.code.mov(rbx, queue.register(STATUS))?;
            guest.code.xor(eax, eax)?;
            guest.repeat(1024, |guest| {
                guest.code.mov(dword_ptr(rbx), eax)?;
                guest.code.add(eax, 1)
            })?;
            for status in [0, 4, DRIVER_OK, 0x80, 4, 0] {
                guest.write32(queue.register(STATUS), status)?;
                guest.write32(queue.register(0x44), 1)?;
                guest.write32(queue.register(NOTIFY), queue.index)?;
            }
            guest.repeat(200, |guest| {
                guest.describe(RINGS.descriptors, &[(DATA, 0x4000, WRITE, 0)])?;
                guest.write16(RINGS.available + 2, 0)?;
                guest.set_up(queue, RINGS)?;
                guest.offer(queue, RINGS, &[0; 8], 8)?;
                guest.write32(queue.register(STATUS), 0)
            })
        });
    }
}

/// Writes these queue numbers to `QueueNotify` of all devices, `times` times.
fn notify_all(guest: &mut GuestBuilder, times: u32, queues: [u32; 2]) -> Assembled {
    guest.repeat(times, |guest| {
        for device in 0..4 {
            guest.code.mov(rbx, Queue { device, index: 0 }.register(NOTIFY))?;
            for queue in queues {
                guest.code.mov(eax, queue)?;
                guest.code.mov(dword_ptr(rbx), eax)?;
            }
        }
        Ok(())
    })
}

#[test]
fn notification_storm_does_not_starve_other_devices() {
    run(|guest| {
        guest.set_up(Queue::DISK, RINGS)?;
        guest.repeat(10, |guest| {
            notify_all(guest, 2_500, [0, 1])?;
            // Queues that do not exist.
            notify_all(guest, 500, [2, u32::MAX])?;
            fetch_random_numbers(guest)
        })
    });
}

#[test]
fn notification_storm_on_one_queue_does_not_starve_other_devices() {
    run(|guest| {
        guest.set_up(Queue::DISK, RINGS)?;
        guest.code.mov(rbx, Queue::DISK.register(NOTIFY))?;
        guest.code.xor(eax, eax)?;
        guest.repeat(100_000, |guest| guest.code.mov(dword_ptr(rbx), eax))
    });
}

/// Frames of invalid lengths and with invalid headers: the device drops them.
#[test]
fn invalid_frames_leave_other_devices_working() {
    let headers: [u64; 6] = [0, u64::MAX, 0x0101, 0xffff_ffff_0000_0101, 0x0010_0022_05b4_0401, 0x8101];
    for header in headers {
        run(|guest| {
            guest.write64(DATA, header)?;
            [0u32, 1, 11, 12, 13, 25, 26, 60, 1526, 65_565, 65_566, 1 << 20].into_iter().try_for_each(
                |length| {
                    try_rings(guest, Queue::TRANSMITQ, RINGS, &[(DATA, length, 0, 0)])?;
                    try_rings(guest, Queue::TRANSMITQ, RINGS, &[(DATA, 7, NEXT, 1), (DATA + 7, length, 0, 0)])
                },
            )
        });
    }
}

/// The console may print any guest memory; the guest's own memory stays accessible.
#[test]
fn output_of_all_memory_leaves_other_devices_working() {
    run(|guest| {
        try_rings(guest, Queue::OUTPUT, RINGS, &[(1 << 20, 16 << 20, 0, 0)])?;
        guest.linger(Queue::OUTPUT, 100)?;
        guest.code.mov(rbx, DATA)?;
        guest.code.mov(al, byte_ptr(rbx))
    });
}
