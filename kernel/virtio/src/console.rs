//! The console device: port 0 (virtio 1.2, section 5.3).
//!
//! What is written is copied into free buffers, so a short line costs one buffer and at most one notification, and
//! allocates nothing. Nobody waits for it: buffers that the device is done with are taken back when the next write
//! comes. Only a write that finds no free buffer asks for an interrupt. Buffers for input are always with the device,
//! but for the one that is being read.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::iter;

use virtio_spec::{F, Id};

use crate::device::{Device, DeviceError, InitError};
use crate::memory::{Buffer, Dma, DmaMemory, Segment};
use crate::queue::{Chain, Queue};
use crate::transport::{Cause, Transport};

/// Numbers of port 0's queues (section 5.3.2).
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

/// Buffers for input, and bytes of each: a page.
const RECEIVE_BUFFERS: u16 = 16;
const RECEIVE_SIZE: usize = 256;

/// Buffers for output, and bytes of each: a line mostly fits into one.
const TRANSMIT_BUFFERS: u16 = 32;
const TRANSMIT_SIZE: usize = 512;

/// A buffer that waits for input.
#[derive(Debug)]
struct Input<M>(Buffer<M>);

impl<M: DmaMemory> Chain for Input<M> {
    fn segments(&self) -> impl Iterator<Item = Segment> {
        iter::once(self.0.writable(0..self.0.size()))
    }
}

/// A buffer with output.
#[derive(Debug)]
struct Output<M> {
    buffer: Buffer<M>,
    length: usize,
}

impl<M: DmaMemory> Chain for Output<M> {
    fn segments(&self) -> impl Iterator<Item = Segment> {
        iter::once(self.buffer.readable(0..self.length))
    }
}

/// Input that has not been read yet.
#[derive(Debug)]
struct Arrived<M> {
    buffer: Buffer<M>,
    position: usize,
    /// More than `position`, and not more than the buffer's size.
    end: usize,
}

/// The driver.
#[derive(Debug)]
pub struct Console<T: Transport, M> {
    device: Device<T>,
    receive: Queue<M, Input<M>>,
    transmit: Queue<M, Output<M>>,
    arrived: Option<Arrived<M>>,
    /// Buffers for output that the device does not have.
    free: Vec<Buffer<M>>,
}

impl<T: Transport, M: DmaMemory> Console<T, M> {
    /// Takes the device into use.
    ///
    /// # Errors
    ///
    /// It is no console, does not behave, or there is no memory for its buffers.
    pub fn new(transport: T, dma: &impl Dma<Memory = M>) -> Result<Self, InitError> {
        let mut device = Device::start(transport, Id::Console, F::empty())?;
        let receive = device.queue(dma, RECEIVE, RECEIVE_BUFFERS)?;
        let transmit = device.queue(dma, TRANSMIT, TRANSMIT_BUFFERS)?;
        let inputs = buffers(dma, receive.size(), RECEIVE_SIZE)?;
        let free = buffers(dma, transmit.size(), TRANSMIT_SIZE)?;
        let mut console = Self { device, receive, transmit, arrived: None, free };
        console.device.run();
        inputs.into_iter().for_each(|buffer| console.post(buffer));
        console.receive.notify(console.device.transport());
        Ok(console)
    }

    /// Writes as many of the bytes as there is room for; how many. With 0 (of more than 0) an interrupt comes once
    /// there is room.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, DeviceError> {
        self.device.working()?;
        self.reclaim()?;
        if self.free.is_empty() && !bytes.is_empty() {
            let armed = self.transmit.arm(1);
            if self.device.checked(armed)? {
                self.reclaim()?;
            }
        }
        let mut written = 0;
        for part in bytes.chunks(TRANSMIT_SIZE) {
            let Some(mut buffer) = self.free.pop() else { break };
            let length = buffer.write(0, part);
            match self.transmit.submit(Output { buffer, length }) {
                Ok(_) => written += length,
                // There are as many descriptors as buffers: this does not happen.
                Err(refused) => self.free.push(refused.chain.buffer),
            }
        }
        self.transmit.notify(self.device.transport());
        Ok(written)
    }

    /// Whether the device has taken all that was written. No interrupt comes when it has.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn is_flushed(&mut self) -> Result<bool, DeviceError> {
        self.device.working()?;
        self.reclaim()?;
        Ok(self.transmit.in_flight() == 0)
    }

    /// Reads the next byte, if one has arrived; see [`Console::read`].
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn read_byte(&mut self) -> Result<Option<u8>, DeviceError> {
        let mut byte = [0];
        let count = self.read(&mut byte)?;
        Ok(byte.first().copied().filter(|_| count > 0))
    }

    /// Reads as much as has arrived and fits; how much. After 0 (of more than 0) an interrupt comes with the next
    /// input.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize, DeviceError> {
        let mut count = 0;
        while let Some(room) = bytes.get_mut(count..).filter(|room| !room.is_empty()) {
            if !self.fetch()? {
                break;
            }
            count += self.copy(room);
        }
        self.receive.notify(self.device.transport());
        Ok(count)
    }

    /// Whether input has arrived. If not, an interrupt comes with the next.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn has_input(&mut self) -> Result<bool, DeviceError> {
        let found = self.fetch()?;
        self.receive.notify(self.device.transport());
        Ok(found)
    }

    /// Takes an interrupt: there may be input, or room for output, or both.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<Cause, DeviceError> {
        let (receive, transmit) = (&self.receive, &self.transmit);
        // Output that is done causes an interrupt only if it was asked for.
        self.device.interrupt(|| receive.has_used() || (transmit.is_armed() && transmit.has_used()))
    }

    /// Takes back output buffers that the device is done with.
    fn reclaim(&mut self) -> Result<(), DeviceError> {
        // There are at most as many as it has: none is given to it here.
        loop {
            let used = self.transmit.complete();
            let Some(used) = self.device.checked(used)? else { return Ok(()) };
            self.free.push(used.chain.buffer);
            if self.transmit.is_armed() {
                self.transmit.disarm();
            }
        }
    }

    /// Makes sure that there is input in `arrived`, if any came.
    fn fetch(&mut self) -> Result<bool, DeviceError> {
        self.device.working()?;
        // A device that returns empty buffers as fast as it is given them is not waited for.
        for _ in 0..RECEIVE_BUFFERS {
            if self.arrived.is_some() {
                return Ok(true);
            }
            let used = self.receive.complete_or_arm();
            let Some(used) = self.device.checked(used)? else { return Ok(false) };
            let Input(buffer) = used.chain;
            match usize::try_from(used.written) {
                Ok(end @ 1..) => self.arrived = Some(Arrived { buffer, position: 0, end }),
                _ => self.post(buffer),
            }
        }
        Ok(self.arrived.is_some())
    }

    /// Copies input out of `arrived`; when that is used up, the device gets the buffer.
    fn copy(&mut self, bytes: &mut [u8]) -> usize {
        let Some(mut arrived) = self.arrived.take() else { return 0 };
        let length = bytes.len().min(arrived.end - arrived.position);
        let (room, _) = bytes.split_at_mut(length);
        let count = arrived.buffer.read(arrived.position, room);
        arrived.position += length;
        if arrived.position < arrived.end {
            self.arrived = Some(arrived);
        } else {
            self.post(arrived.buffer);
        }
        count
    }

    /// Gives the device a buffer for input.
    fn post(&mut self, buffer: Buffer<M>) {
        // There are as many descriptors as buffers. If the queue is broken, the next call will find out.
        let _posted = self.receive.submit(Input(buffer));
    }
}

/// Some buffers of a size.
fn buffers<M: DmaMemory>(
    dma: &impl Dma<Memory = M>,
    count: u16,
    size: usize,
) -> Result<Vec<Buffer<M>>, InitError> {
    let mut buffers = Vec::new();
    buffers.try_reserve_exact(usize::from(count)).map_err(|_| InitError::OutOfMemory)?;
    let memory = Buffer::allocate(dma, usize::from(count) * size).ok_or(InitError::OutOfMemory)?;
    buffers.extend(memory.split(size));
    Ok(buffers)
}
