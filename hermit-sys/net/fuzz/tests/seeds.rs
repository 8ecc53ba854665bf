//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
#[path = "../../../../hypervisor/fuzz/tests/seeds/near.rs"]
mod near;

#[cfg(test)]
mod tests {
    use super::near::near_a_seed;
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 3] =
        [("stack", net_fuzz::stack), ("connection", net_fuzz::connection), ("names", net_fuzz::names)];

    /// Each target with each of its seeds.
    fn seeds() -> Vec<(Target, PathBuf)> {
        let mut all = Vec::new();
        for (name, target) in TARGETS {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
            let seeds = fs::read_dir(directory).unwrap();
            all.extend(seeds.map(|seed| (target, seed.unwrap().path())));
        }
        all
    }

    #[test]
    fn all_seeds_pass_their_target() {
        seeds().into_iter().for_each(|(target, seed)| target(&fs::read(seed).unwrap()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn inputs_near_seeds_pass_their_target((target, input) in near_a_seed(seeds())) {
            target(&input);
        }
    }
}
