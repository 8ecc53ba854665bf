//! Reinterprets plain data.

use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Vertex {
    position: [f32; 3],
    colour: [u8; 4],
}

pub fn run() -> crate_uses::Result {
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
