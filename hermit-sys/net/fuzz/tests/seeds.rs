//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use std::fs;
    use std::path::Path;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 3] =
        [("stack", net_fuzz::stack), ("connection", net_fuzz::connection), ("names", net_fuzz::names)];

    /// Each target with each of its seeds.
    fn seeds() -> Vec<(Target, Vec<u8>)> {
        let mut all = Vec::new();
        for (name, target) in TARGETS {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
            let seeds = fs::read_dir(directory).unwrap();
            all.extend(seeds.map(|seed| (target, fs::read(seed.unwrap().path()).unwrap())));
        }
        all
    }

    #[test]
    fn all_seeds_pass_their_target() {
        seeds().into_iter().for_each(|(target, seed)| target(&seed));
    }

    /// A target, and an input that differs from one of its seeds in a few bytes, or is its beginning.
    fn near_a_seed() -> impl Strategy<Value = (Target, Vec<u8>)> {
        let edits = vec((any::<Index>(), any::<u8>()), 0..8);
        (select(seeds()), edits, any::<Option<Index>>()).prop_map(|((target, mut input), edits, end)| {
            for (index, byte) in edits {
                *index.get_mut(&mut input) = byte;
            }
            input.truncate(end.map_or(usize::MAX, |end| end.index(input.len() + 1)));
            (target, input)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn inputs_near_seeds_pass_their_target((target, input) in near_a_seed()) {
            target(&input);
        }
    }
}
