//! Queues that make no sense.

use iced_x86::code_asm::{al, byte_ptr, dword_ptr, eax, rax, rbx};

use crate::driver::{Descriptor, INDIRECT, NEXT, NOTIFY, Queue, READY, Rings, STATUS, WRITE};
use crate::guest::{Assembled, BUFFERS, Guest};
use crate::host::Host;

/// A status by which a test knows that the devices still worked in the end.
const WORKED: u8 = 42;

/// The last byte of memory and one more.
const END: u64 = 32 << 20;

/// Where queues and buffers lie.
const RINGS: Rings = Rings::at(BUFFERS);
const TABLE: u64 = BUFFERS + 0x1000;
const DATA: u64 = BUFFERS + 0x2000;
/// The same for the device that works.
const GOOD: Rings = Rings::at(BUFFERS + 0x8000);
const RANDOM: u64 = BUFFERS + 0x9000;

/// The queues of all devices.
const QUEUES: [Queue; 6] =
    [Queue::INPUT, Queue::OUTPUT, Queue::RANDOM, Queue::DISK, Queue::RECEIVED, Queue::SENT];

/// Runs a guest, after which the random numbers must still come and the disk must be as it was.
fn run(write: impl FnOnce(&mut Guest) -> Assembled) {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", 16);
    host.option("--block");
    host.option(&disk.name());
    host.network();
    let image = Guest::image(WORKED, |guest| {
        write(guest)?;
        fetch_random_numbers(guest)
    });
    assert_eq!(host.run(&image), WORKED.into());
    assert!(disk.is_untouched());
}

/// Uses a device as it is meant to be used. The guest goes on only if there are random numbers.
fn fetch_random_numbers(guest: &mut Guest) -> Assembled {
    let mut came = guest.code.create_label();
    guest.clear(GOOD.descriptors, 0x600)?;
    guest.write64(RANDOM, 0)?;
    guest.describe(GOOD.descriptors, &[(RANDOM, 8, WRITE, 0)])?;
    guest.set_up(Queue::RANDOM, GOOD)?;
    guest.offer(Queue::RANDOM, GOOD, &[0], 1)?;
    guest.wait_for(GOOD, 1)?;
    guest.code.mov(rbx, RANDOM)?;
    guest.code.mov(rax, iced_x86::code_asm::qword_ptr(rbx))?;
    guest.code.test(rax, rax)?;
    guest.code.jne(came)?;
    guest.exit(2)?;
    guest.code.set_label(&mut came)?;
    guest.code.nop()
}

/// Has a device work with these rings, and descriptors where it looks for them.
fn try_rings(guest: &mut Guest, queue: Queue, rings: Rings, descriptors: &[Descriptor]) -> Assembled {
    guest.describe(RINGS.descriptors, descriptors)?;
    guest.write16(RINGS.available + 2, 0)?;
    guest.set_up(queue, rings)?;
    guest.offer(queue, RINGS, &[0, 1, 2, 3, 4, 5, 6, 7], 1)?;
    guest.linger(queue, 50)
}

#[test]
fn rings_where_no_memory_is_do_no_harm() {
    let places = [0, END - 16, END, 0xd000_0000, 0xffff_ffff_ffff_fff0, u64::MAX, BUFFERS + 1];
    let rings = places.into_iter().flat_map(|place| {
        [
            Rings { descriptors: place, ..RINGS },
            Rings { available: place, ..RINGS },
            Rings { used: place, ..RINGS },
        ]
    });
    for queue in QUEUES {
        run(|guest| {
            rings.clone().try_for_each(|rings| try_rings(guest, queue, rings, &[(DATA, 16, WRITE, 0)]))
        });
    }
}

#[test]
fn rings_of_odd_sizes_or_on_top_of_each_other_do_no_harm() {
    for queue in QUEUES {
        run(|guest| {
            for size in [0, 1, 3, 7, 256, 0x8000, 0xffff, 0x1_0001, u32::MAX] {
                try_rings(guest, queue, Rings { size, ..RINGS }, &[(DATA, 16, WRITE, 0)])?;
            }
            let same = Rings { available: BUFFERS, used: BUFFERS, ..RINGS };
            try_rings(guest, queue, same, &[(DATA, 16, WRITE, 0)])?;
            // The buffer is the queue.
            try_rings(guest, queue, RINGS, &[(BUFFERS, 0x1000, WRITE, 0)])
        });
    }
}

/// Chains of all the kinds that are none.
const CHAINS: [&[Descriptor]; 14] = [
    // Loops.
    &[(DATA, 16, WRITE | NEXT, 0)],
    &[(DATA, 16, NEXT, 1), (DATA, 16, WRITE | NEXT, 0)],
    &[(DATA, 0, NEXT, 1), (DATA, 0, NEXT, 0)],
    // The next one lies beyond the table.
    &[(DATA, 16, WRITE | NEXT, 8)],
    &[(DATA, 16, NEXT, 0xffff)],
    // Buffers that are not in memory, or not all of them.
    &[(END - 8, 16, WRITE, 0)],
    &[(0xd000_0000, 4096, WRITE, 0)],
    &[(u64::MAX - 4, 16, 0, 0)],
    &[(0, u32::MAX, WRITE, 0)],
    &[(DATA, 16, NEXT, 1), (0, u32::MAX, WRITE, 0)],
    // Tables: as large as can be, of odd sizes, in themselves.
    &[(TABLE, u32::MAX - 15, INDIRECT, 0)],
    &[(TABLE, 17, INDIRECT, 0)],
    &[(END - 16, 4096, INDIRECT, 0)],
    &[(BUFFERS, 16, INDIRECT | NEXT | WRITE, 0)],
];

#[test]
fn chains_that_are_none_do_no_harm() {
    for queue in QUEUES {
        run(|guest| CHAINS.into_iter().try_for_each(|chain| try_rings(guest, queue, RINGS, chain)));
    }
}

#[test]
fn tables_that_loop_or_never_end_do_no_harm() {
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
fn an_available_index_that_jumps_does_no_harm() {
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

/// Every value, first without anything before it; then a start from the wrong end; then resets while requests are served.
#[test]
fn a_status_that_makes_no_sense_does_no_harm() {
    for queue in QUEUES {
        run(|guest| {
            guest.code.mov(rbx, queue.register(STATUS))?;
            guest.code.xor(eax, eax)?;
            guest.repeat(1024, |guest| {
                guest.code.mov(dword_ptr(rbx), eax)?;
                guest.code.add(eax, 1)
            })?;
            for status in [0, 4, READY, 0x80, 4, 0] {
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

/// Notifies queues of these numbers of all devices, `times` times.
fn storm(guest: &mut Guest, times: u32, queues: [u32; 2]) -> Assembled {
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
fn a_storm_of_notifications_does_not_stop_other_devices() {
    run(|guest| {
        guest.set_up(Queue::DISK, RINGS)?;
        guest.repeat(10, |guest| {
            storm(guest, 10_000, [0, 1])?;
            // Queues that no device has.
            storm(guest, 500, [2, u32::MAX])?;
            fetch_random_numbers(guest)
        })
    });
}

#[test]
fn a_storm_on_one_queue_does_not_stop_other_devices() {
    run(|guest| {
        guest.set_up(Queue::DISK, RINGS)?;
        guest.code.mov(rbx, Queue::DISK.register(NOTIFY))?;
        guest.code.xor(eax, eax)?;
        guest.repeat(100_000, |guest| guest.code.mov(dword_ptr(rbx), eax))
    });
}

/// Frames of all lengths, and headers that ask for things: what is no frame is dropped, and the device goes on.
#[test]
fn frames_that_are_none_do_no_harm() {
    let headers: [u64; 6] = [0, u64::MAX, 0x0101, 0xffff_ffff_0000_0101, 0x0010_0022_05b4_0401, 0x8101];
    for header in headers {
        run(|guest| {
            guest.write64(DATA, header)?;
            [0u32, 1, 11, 12, 13, 25, 26, 60, 1526, 65_565, 65_566, 1 << 20].into_iter().try_for_each(
                |length| {
                    try_rings(guest, Queue::SENT, RINGS, &[(DATA, length, 0, 0)])?;
                    try_rings(guest, Queue::SENT, RINGS, &[(DATA, 7, NEXT, 1), (DATA + 7, length, 0, 0)])
                },
            )
        });
    }
}

/// All that a console is given to print may be printed, but the device's answers must be the guest's own memory.
#[test]
fn output_of_all_memory_does_no_harm() {
    run(|guest| {
        try_rings(guest, Queue::OUTPUT, RINGS, &[(1 << 20, 16 << 20, 0, 0)])?;
        guest.linger(Queue::OUTPUT, 100)?;
        guest.code.mov(rbx, DATA)?;
        guest.code.mov(al, byte_ptr(rbx))
    });
}
