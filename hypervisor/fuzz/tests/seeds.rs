//! Runs the fuzz targets on their seeds and on inputs near them: without a fuzzer, on a stable compiler.

#[cfg(test)]
#[path = "seeds/near.rs"]
mod near;

#[cfg(test)]
#[path = "seeds/text.rs"]
mod text;

#[cfg(test)]
mod tests {
    use super::near::near_a_seed;
    use super::text::parse;
    use hermit_interface::image::{self, sample::Sample};
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use uhyve_fuzz::TARGETS;

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
    }

    /// Seeds of a target, with their names.
    fn seeds_of(target: &str) -> Vec<(String, Vec<u8>)> {
        let text = fs::read_to_string(directory().join(target).with_extension("txt")).unwrap();
        parse(&text).unwrap()
    }

    #[test]
    fn all_seeds_pass_their_target() {
        for (name, target) in TARGETS {
            let seeds = seeds_of(name);
            assert!(!seeds.is_empty(), "{name}");
            for (seed, input) in seeds {
                println!("{name}: {seed}");
                target(&input);
            }
        }
    }

    /// Numbers of the targets, each with all its seeds.
    fn seeds() -> Vec<(usize, Vec<u8>)> {
        let targets = TARGETS.into_iter().enumerate();
        targets
            .flat_map(|(target, (name, _))| seeds_of(name).into_iter().map(move |(_, seed)| (target, seed)))
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
    fn every_file_has_a_target() {
        for entry in fs::read_dir(directory()).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
        }
    }

    /// With another version the target would parse nothing of them.
    #[test]
    fn seeds_of_boot_information_are_of_this_version() {
        for (name, seed) in seeds_of("boot_info") {
            let version = u32::from_le_bytes(seed[8..12].try_into().unwrap());
            assert_eq!(version, hermit_interface::note::ABI_VERSION, "{name}");
        }
    }

    #[test]
    fn image_seeds_are_valid() {
        for (name, seed) in seeds_of("image") {
            if let Err(error) = image::check(&seed) {
                let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
                fs::write(&fresh, Sample::default().build()).unwrap();
                panic!("{error}: write the bytes of {} to the seed {name}", fresh.display());
            }
        }
    }

    #[test]
    fn bytes_are_digits_texts_and_repetitions() {
        let seeds = parse("# Comment\n\none:\n    0aFF \"a b\" 00*3\n    \"c\"\nempty:\n").unwrap();
        assert_eq!(seeds, [("one".into(), b"\n\xffa b\0\0\0c".to_vec()), ("empty".into(), Vec::new())]);
        for invalid in ["    00\n", "one\n", "one:\n  0g\n", "one:\n  \"a\n", "one:\n  00*x\n"] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }
}
