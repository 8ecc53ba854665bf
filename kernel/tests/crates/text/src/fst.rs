//! Builds an ordered map as a transducer, and searches it.

use fst::automaton::{Automaton, Str, Subsequence};
use fst::{IntoStreamer, Map, MapBuilder, Streamer};

pub fn run() -> crate_uses::Result {
    let mut builder = MapBuilder::memory();
    for number in 0..2000_u64 {
        builder.insert(format!("key-{number:05}"), number * number)?;
    }
    let bytes = builder.into_inner()?;
    println!("{} bytes, {}", bytes.len(), crate_uses::digest(&bytes));
    let map = Map::new(bytes)?;
    println!("{:?} {:?}", map.get("key-00044"), map.get("key-99999"));
    let mut range = map.range().ge("key-01997").into_stream();
    while let Some((key, value)) = range.next() {
        println!("{} {value}", str::from_utf8(key)?);
    }
    let mut found = map.search(Subsequence::new("777")).into_stream();
    while let Some((key, value)) = found.next() {
        println!("{} {value}", str::from_utf8(key)?);
    }
    println!("{}", map.search(Str::new("key-01").starts_with()).into_stream().into_str_keys()?.len());
    Ok(())
}
