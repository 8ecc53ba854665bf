//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
#[path = "seeds/near.rs"]
mod near;

#[cfg(test)]
mod tests {
    use super::near::near_a_seed;
    use hermit_interface::image::{self, sample::Sample};
    use proptest::prelude::*;
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

    /// Numbers of the targets, each with all its seeds.
    fn seeds() -> Vec<(usize, PathBuf)> {
        let targets = TARGETS.into_iter().enumerate();
        targets
            .flat_map(|(target, (name, _))| files(name).into_iter().map(move |seed| (target, seed)))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn inputs_near_seeds_pass_their_target((target, input) in near_a_seed(seeds())) {
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
