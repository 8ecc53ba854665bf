//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
#[path = "../../../../hypervisor/fuzz/tests/seeds/near.rs"]
mod near;

#[cfg(test)]
#[path = "../../../../hypervisor/fuzz/tests/seeds/text.rs"]
mod text;

#[cfg(test)]
mod tests {
    use super::near::near_a_seed;
    use super::text::parse;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 3] =
        [("stack", net_fuzz::stack), ("connection", net_fuzz::connection), ("names", net_fuzz::names)];

    /// Each target with each of its seeds.
    fn seeds() -> Vec<(Target, Vec<u8>)> {
        let mut all = Vec::new();
        for (name, target) in TARGETS {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name).with_extension("txt");
            let seeds = parse(&fs::read_to_string(file).unwrap()).unwrap();
            all.extend(seeds.into_iter().map(|(_, seed)| (target, seed)));
        }
        all
    }

    #[test]
    fn all_seeds_pass_their_target() {
        seeds().into_iter().for_each(|(target, seed)| target(&seed));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn inputs_near_seeds_pass_their_target((target, input) in near_a_seed(seeds())) {
            target(&input);
        }
    }
}
