//! Buffers that share memory.

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub fn run() -> crate_uses::Result {
    let mut buffer = BytesMut::with_capacity(8);
    for number in crate_uses::numbers(9).take(300) {
        buffer.put_u16((number >> 20) as u16);
        buffer.put_f64_le(f64::from(number));
        buffer.put_slice(b"text");
    }
    let tail = buffer.split_off(4000);
    let bytes: Bytes = buffer.freeze();
    let parts: Vec<Bytes> = (0..8).map(|index| bytes.slice(index * 500..(index + 1) * 500)).collect();
    let digests = parts.into_iter().map(|part| std::thread::spawn(move || crate_uses::digest(&part)));
    for digest in digests.collect::<Vec<_>>() {
        println!("{}", digest.join().map_err(|_| "panic")?);
    }
    let mut chain = bytes.slice(3990..).chain(tail.freeze());
    let mut sum = 0.0;
    chain.advance(2);
    while chain.remaining() >= 14 {
        sum += f64::from(chain.get_u16()) + f64::from(chain.get_u32());
        chain.advance(8);
    }
    println!("{sum} {} {:?}", chain.remaining(), Bytes::from_static(b"a\0\xff\"").slice_ref(b""));
    println!("{:?}", Bytes::from("reader").reader().into_inner().copy_to_bytes(3));
    Ok(())
}
