//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use hermit_interface::image::{self, sample::Sample};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use std::fs;
    use std::path::{Path, PathBuf};
    use uhyve_fuzz::TARGETS;

    fn files(target: &str) -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn all_seeds_pass_their_target() {
        for (name, target) in TARGETS {
            let seeds = files(name);
            assert!(!seeds.is_empty(), "{name}");
            for seed in seeds {
                println!("{}", seed.display());
                target(&fs::read(seed).unwrap());
            }
        }
    }

    /// A target, and an input that differs from one of its seeds in a few bytes, or is its beginning.
    fn near_a_seed() -> impl Strategy<Value = (usize, Vec<u8>)> {
        let seeds: Vec<_> = TARGETS
            .into_iter()
            .enumerate()
            .flat_map(|(target, (name, _))| files(name).into_iter().map(move |seed| (target, seed)))
            .collect();
        let edits = vec((any::<Index>(), any::<u8>()), 0..8);
        (select(seeds), edits, any::<Option<Index>>()).prop_map(|((target, seed), edits, end)| {
            let mut input = fs::read(seed).unwrap();
            let edits = if input.is_empty() { Vec::new() } else { edits };
            edits.into_iter().for_each(|(index, byte)| *index.get_mut(&mut input) = byte);
            input.truncate(end.map_or(usize::MAX, |end| end.index(input.len() + 1)));
            (target, input)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn inputs_near_seeds_pass_their_target((target, input) in near_a_seed()) {
            TARGETS[target].1(&input);
        }
    }

    #[test]
    fn every_directory_has_a_target() {
        for directory in files("") {
            let name = directory.file_name().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
        }
    }

    /// With another version the target would parse nothing of them.
    #[test]
    fn seeds_of_boot_information_are_of_this_version() {
        for seed in files("boot_info") {
            let version = u32::from_le_bytes(fs::read(&seed).unwrap()[8..12].try_into().unwrap());
            assert_eq!(version, hermit_interface::note::ABI_VERSION, "{}", seed.display());
        }
    }

    #[test]
    fn image_seeds_are_valid() {
        for seed in files("image") {
            if let Err(error) = image::check(&fs::read(&seed).unwrap()) {
                let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
                fs::write(&fresh, Sample::default().build()).unwrap();
                panic!("{error}: copy {} to {}", fresh.display(), seed.display());
            }
        }
    }
}
