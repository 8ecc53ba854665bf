//! Bytes as numbers and structures.

use std::io::Cursor;

use bytemuck::{Pod, Zeroable};
use byteorder::{BigEndian, ByteOrder, LittleEndian, NetworkEndian, ReadBytesExt, WriteBytesExt};

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Vertex {
    position: [f32; 3],
    colour: [u8; 4],
}

/// Reinterprets plain data.
pub fn bytemuck() -> crate_uses::Result {
    let vertices = [Vertex { position: [1.0, -2.5, 0.0], colour: [1, 2, 3, 4] }, Vertex::zeroed()];
    let bytes: &[u8] = bytemuck::cast_slice(&vertices);
    println!("{bytes:02x?}");
    let again: Vec<Vertex> = bytes.chunks(16).map(bytemuck::pod_read_unaligned).collect();
    println!("{again:?} {}", again == vertices);
    println!("{:?}", bytemuck::try_cast_slice::<u8, u64>(&bytes[..7]).map_err(|error| error.to_string()));
    let mut words = [0x0102_0304_u32, 5];
    bytemuck::bytes_of_mut(&mut words)[4] = 0xff;
    println!("{words:x?} {:?}", bytemuck::cast::<[u32; 2], u64>(words));
    Ok(())
}

/// Numbers in both orders of bytes.
pub fn byteorder() -> crate_uses::Result {
    let mut bytes = Vec::new();
    bytes.write_u16::<BigEndian>(0x1234)?;
    bytes.write_u24::<LittleEndian>(0x0056_789a)?;
    bytes.write_i128::<NetworkEndian>(-5)?;
    bytes.write_f64::<LittleEndian>(1.5)?;
    println!("{bytes:02x?}");
    let mut reader = Cursor::new(&bytes);
    println!("{:x} {:x}", reader.read_u16::<BigEndian>()?, reader.read_u24::<LittleEndian>()?);
    println!("{} {}", reader.read_i128::<NetworkEndian>()?, reader.read_f64::<LittleEndian>()?);
    println!("{:?}", reader.read_u8().map_err(|error| error.kind()));
    let mut words = [0; 4];
    LittleEndian::read_u32_into(&bytes[..16], &mut words);
    BigEndian::from_slice_u32(&mut words);
    println!("{words:x?} {:x}", BigEndian::read_uint(&bytes, 5));
    Ok(())
}
