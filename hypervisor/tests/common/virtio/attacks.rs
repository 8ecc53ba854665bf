//! Malformed virtqueues. After each attack, the other devices must still work, which [`fetch_random_numbers`]
//! checks.

use iced_x86::code_asm::{al, byte_ptr, qword_ptr, r15, rax};

use super::driver::{
    BUFFERS, DRIVER_OK, Descriptor, Driver, INDIRECT, NEXT, NOTIFY, Queue, READY, Rings, STATUS, WRITE,
};
use super::{Assembled, Machine};

/// Addresses of the queue under test, of an indirect table, and of data.
const RINGS: Rings = Rings::at(BUFFERS);
const TABLE: u32 = BUFFERS + 0x1000;
const DATA: u32 = BUFFERS + 0x2000;
const DATA_ADDRESS: u64 = DATA as u64;
const TABLE_ADDRESS: u64 = TABLE as u64;
/// Addresses of the valid queue of the entropy device, and of its data.
const VALID: u32 = BUFFERS + 0x8000;
const RANDOM: u32 = BUFFERS + 0x9000;

/// The queues of all devices. A VM may lack a network device.
pub(crate) const QUEUES: [Queue; 6] =
    [Queue::INPUT, Queue::OUTPUT, Queue::RANDOM, Queue::DISK, Queue::RECEIVEQ, Queue::TRANSMITQ];

/// Reads random bytes from the entropy device. Exits with status 1 or 2 unless they arrive.
pub(crate) fn fetch_random_numbers(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    let mut arrived = driver.0.code().create_label();
    driver.clear(VALID, 0x600)?;
    driver.write64(RANDOM, 0)?;
    driver.describe(VALID, &[(RANDOM.into(), 8, WRITE, 0)])?;
    driver.set_up(Queue::RANDOM, Rings::at(VALID))?;
    driver.offer(Queue::RANDOM, VALID, &[0], 1)?;
    driver.wait_for(VALID, 1)?;
    driver.0.code().mov(rax, qword_ptr(r15 + RANDOM))?;
    driver.0.code().test(rax, rax)?;
    driver.0.code().jne(arrived)?;
    driver.exit(2)?;
    driver.0.code().set_label(&mut arrived)?;
    driver.0.code().nop()
}

/// Initialises a device with these rings, and makes a chain of these descriptors available.
fn try_rings(
    driver: &mut Driver<'_, impl Machine>,
    queue: Queue,
    rings: Rings,
    descriptors: &[Descriptor],
) -> Assembled {
    driver.describe(BUFFERS, descriptors)?;
    driver.write16(BUFFERS + 0x202, 0)?;
    driver.set_up(queue, rings)?;
    driver.offer(queue, BUFFERS, &[0, 1, 2, 3, 4, 5, 6, 7], 1)?;
    driver.linger(queue, 50)
}

/// Rings that lie outside memory, or start at an odd address.
pub(crate) fn rings_outside_memory<M: Machine>(driver: &mut Driver<'_, M>, queue: Queue) -> Assembled {
    let end = M::MEMORY;
    let addresses = [0, end - 16, end, 0xd000_0000, 0xffff_ffff_ffff_fff0, u64::MAX, u64::from(BUFFERS) + 1];
    let mut rings = addresses.into_iter().flat_map(|address| {
        [
            Rings { descriptors: address, ..RINGS },
            Rings { available: address, ..RINGS },
            Rings { used: address, ..RINGS },
        ]
    });
    rings.try_for_each(|rings| try_rings(driver, queue, rings, &[(DATA_ADDRESS, 16, WRITE, 0)]))
}

/// Rings that have invalid sizes, overlap each other, or overlap a buffer.
pub(crate) fn invalid_rings(driver: &mut Driver<'_, impl Machine>, queue: Queue) -> Assembled {
    for size in [0, 1, 3, 7, 256, 0x8000, 0xffff, 0x1_0001, u32::MAX] {
        try_rings(driver, queue, Rings { size, ..RINGS }, &[(DATA_ADDRESS, 16, WRITE, 0)])?;
    }
    let start = BUFFERS.into();
    let overlapping = Rings { available: start, used: start, ..RINGS };
    try_rings(driver, queue, overlapping, &[(DATA_ADDRESS, 16, WRITE, 0)])?;
    try_rings(driver, queue, RINGS, &[(start, 0x1000, WRITE, 0)])
}

/// Returns malformed descriptor chains for a guest whose memory ends at `end`.
fn chains(end: u64) -> Vec<Vec<Descriptor>> {
    let (data, table) = (DATA_ADDRESS, TABLE_ADDRESS);
    vec![
        // Loops.
        vec![(data, 16, WRITE | NEXT, 0)],
        vec![(data, 16, NEXT, 1), (data, 16, WRITE | NEXT, 0)],
        vec![(data, 0, NEXT, 1), (data, 0, NEXT, 0)],
        // `next` outside the table.
        vec![(data, 16, WRITE | NEXT, 8)],
        vec![(data, 16, NEXT, 0xffff)],
        // Buffers outside memory, wholly or in part.
        vec![(end - 8, 16, WRITE, 0)],
        vec![(0xd000_0000, 4096, WRITE, 0)],
        vec![(u64::MAX - 4, 16, 0, 0)],
        vec![(0, u32::MAX, WRITE, 0)],
        vec![(data, 16, NEXT, 1), (0, u32::MAX, WRITE, 0)],
        // Indirect tables: of the maximum size, of an invalid size, within themselves.
        vec![(table, u32::MAX - 15, INDIRECT, 0)],
        vec![(table, 17, INDIRECT, 0)],
        vec![(end - 16, 4096, INDIRECT, 0)],
        vec![(BUFFERS.into(), 16, INDIRECT | NEXT | WRITE, 0)],
    ]
}

/// Malformed descriptor chains.
pub(crate) fn malformed_chains<M: Machine>(driver: &mut Driver<'_, M>, queue: Queue) -> Assembled {
    chains(M::MEMORY).iter().try_for_each(|chain| try_rings(driver, queue, RINGS, chain))
}

/// Indirect tables that contain themselves or loop.
pub(crate) fn looping_tables(driver: &mut Driver<'_, impl Machine>, queue: Queue) -> Assembled {
    let (data, table) = (DATA_ADDRESS, TABLE_ADDRESS);
    let tables: [&[Descriptor]; 4] = [
        &[(table, 4096, INDIRECT, 0)],
        &[(data, 1, WRITE | NEXT, 0)],
        &[(data, 1, NEXT, 1), (data, 1, NEXT, 2), (data, 1, NEXT, 0xff)],
        &[(data, 1 << 20, WRITE | NEXT, 1), (data, 1 << 20, WRITE | NEXT, 0)],
    ];
    let sizes = [16, 64, 4096, 1 << 20, u32::MAX - 15];
    tables.into_iter().try_for_each(|entries| {
        driver.describe(TABLE, entries)?;
        let mut indirect = sizes.into_iter().map(|size| (table, size, INDIRECT, 0));
        indirect.try_for_each(|descriptor| try_rings(driver, queue, RINGS, &[descriptor]))
    })
}

/// An available index that jumps forward and back, and heads outside the table.
pub(crate) fn jumping_index(driver: &mut Driver<'_, impl Machine>, queue: Queue) -> Assembled {
    for index in [9u16, 0x7fff, 0x8000, 0xffff] {
        try_rings(driver, queue, RINGS, &[(DATA_ADDRESS, 16, WRITE, 0)])?;
        driver.offer(queue, BUFFERS, &[0xffff, 8, 9], index)?;
        driver.linger(queue, 50)?;
        driver.offer(queue, BUFFERS, &[0], 0)?;
        driver.linger(queue, 50)?;
    }
    Ok(())
}

/// Writes all values from 1,024 down, then status bits out of order, then resets while requests are
/// processed.
pub(crate) fn invalid_status(driver: &mut Driver<'_, impl Machine>, queue: Queue) -> Assembled {
    driver.repeat(1024, |driver| driver.0.write_counter(queue.device, STATUS))?;
    for status in [0, 4, DRIVER_OK, 0x80, 4, 0] {
        driver.0.write_register(queue.device, STATUS, status)?;
        driver.0.write_register(queue.device, READY, 1)?;
        driver.0.write_register(queue.device, NOTIFY, queue.index)?;
    }
    driver.repeat(200, |driver| {
        driver.describe(BUFFERS, &[(DATA_ADDRESS, 0x4000, WRITE, 0)])?;
        driver.write16(BUFFERS + 0x202, 0)?;
        driver.set_up(queue, RINGS)?;
        driver.offer(queue, BUFFERS, &[0; 8], 8)?;
        driver.0.write_register(queue.device, STATUS, 0)
    })
}

/// Notifies all devices `times` times, each time about both of these queues.
fn notify_all(driver: &mut Driver<'_, impl Machine>, times: u32, queues: [u32; 2]) -> Assembled {
    driver.repeat(times, |driver| {
        let mut all = (0..4).flat_map(|device| queues.map(|queue| (device, queue)));
        all.try_for_each(|(device, queue)| driver.0.write_register(device, NOTIFY, queue))
    })
}

/// Notifies all devices 10 × `times` times about their queues and about queues that do not exist. Between the
/// notifications, checks that the entropy device works.
pub(crate) fn notification_storm(driver: &mut Driver<'_, impl Machine>, times: u32) -> Assembled {
    driver.set_up(Queue::DISK, RINGS)?;
    driver.repeat(10, |driver| {
        notify_all(driver, times, [0, 1])?;
        notify_all(driver, times / 5, [2, u32::MAX])?;
        fetch_random_numbers(driver)
    })
}

/// Notifies only the disk, again and again.
pub(crate) fn notification_storm_on_one_queue(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    driver.set_up(Queue::DISK, RINGS)?;
    driver.repeat(100_000, |driver| driver.0.notify(Queue::DISK.device, Queue::DISK.index))
}

/// Beginnings of invalid vnet headers.
pub(crate) const HEADERS: [u64; 6] =
    [0, u64::MAX, 0x0101, 0xffff_ffff_0000_0101, 0x0010_0022_05b4_0401, 0x8101];

/// Frames of invalid lengths whose vnet header begins with `header`. The device must drop them.
pub(crate) fn invalid_frames(driver: &mut Driver<'_, impl Machine>, header: u64) -> Assembled {
    driver.write64(DATA, header)?;
    [0u32, 1, 11, 12, 13, 25, 26, 60, 1526, 65_565, 65_566, 1 << 20].into_iter().try_for_each(|length| {
        let queue = Queue::TRANSMITQ;
        try_rings(driver, queue, RINGS, &[(DATA_ADDRESS, length, 0, 0)])?;
        try_rings(driver, queue, RINGS, &[(DATA_ADDRESS, 7, NEXT, 1), (DATA_ADDRESS + 7, length, 0, 0)])
    })
}

/// Prints large parts of guest memory. The console may do so, and the guest's memory stays accessible.
pub(crate) fn output_of_much_memory<M: Machine>(driver: &mut Driver<'_, M>) -> Assembled {
    let size = u32::try_from(M::MEMORY / 2).expect("a small memory");
    try_rings(driver, Queue::OUTPUT, RINGS, &[(1 << 20, size, 0, 0)])?;
    driver.linger(Queue::OUTPUT, 100)?;
    driver.0.code().mov(al, byte_ptr(r15 + DATA))
}

/// Prints 16 bytes, and does not wait for completion: if standard output is a full pipe, the bytes are never
/// printed.
pub(crate) fn print(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    driver.describe(VALID, &[(DATA_ADDRESS, 16, 0, 0)])?;
    driver.set_up(Queue::OUTPUT, Rings::at(VALID))?;
    driver.offer(Queue::OUTPUT, VALID, &[0], 1)
}
