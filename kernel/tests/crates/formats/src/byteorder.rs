//! Numbers in both orders of bytes.

use std::io::Cursor;

use byteorder::{BigEndian, ByteOrder, LittleEndian, NetworkEndian, ReadBytesExt, WriteBytesExt};

pub fn run() -> crate_uses::Result {
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
