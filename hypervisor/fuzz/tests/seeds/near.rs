//! Inputs near the seeds of fuzz targets. The tests of both packages of fuzz targets contain this module.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A target, and an input that differs from one of its seeds in a few bytes, or is its beginning.
pub(crate) fn near_a_seed<T: Clone + Debug + 'static>(
    seeds: Vec<(T, Vec<u8>)>,
) -> impl Strategy<Value = (T, Vec<u8>)> {
    let edits = vec((any::<Index>(), any::<u8>()), 0..8);
    (select(seeds), edits, any::<Option<Index>>()).prop_map(|((target, mut input), edits, end)| {
        let edits = if input.is_empty() { Vec::new() } else { edits };
        edits.into_iter().for_each(|(index, byte)| *index.get_mut(&mut input) = byte);
        input.truncate(end.map_or(usize::MAX, |end| end.index(input.len() + 1)));
        (target, input)
    })
}
