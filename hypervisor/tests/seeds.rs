//! What fuzzers start from, through the functions that they call: without a fuzzer, on every compiler.

#[expect(unreachable_pub, reason = "the fuzzers' programs reach it")]
#[path = "../fuzz/src/lib.rs"]
mod targets;

#[cfg(test)]
mod tests {
    use super::targets::TARGETS;
    use hermit_interface::image::{self, sample::Sample};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn seeds(target: &str) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn every_seed_passes() {
        for (name, target) in TARGETS {
            let seeds = seeds(name);
            assert!(!seeds.is_empty(), "{name}");
            for seed in seeds {
                println!("{}", seed.display());
                target(&fs::read(seed).unwrap());
            }
        }
    }

    #[test]
    fn every_folder_of_seeds_has_a_target() {
        for folder in seeds("") {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
        }
    }

    #[test]
    fn the_image_is_valid() {
        let seed = &seeds("image")[0];
        if let Err(error) = image::check(&fs::read(seed).unwrap()) {
            let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
            fs::write(&fresh, Sample::default().build()).unwrap();
            panic!("{error}: copy {} to {}", fresh.display(), seed.display());
        }
    }
}
