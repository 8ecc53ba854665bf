//! Runs the fuzz targets on their seeds: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use hermit_interface::image::{self, sample::Sample};
    use std::fs;
    use std::path::{Path, PathBuf};
    use uhyve_fuzz::TARGETS;

    fn seeds(target: &str) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn all_seeds_pass_their_target() {
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
    fn every_seed_folder_has_a_target() {
        for folder in seeds("") {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
        }
    }

    #[test]
    fn image_seed_is_valid() {
        let seed = &seeds("image")[0];
        if let Err(error) = image::check(&fs::read(seed).unwrap()) {
            let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
            fs::write(&fresh, Sample::default().build()).unwrap();
            panic!("{error}: copy {} to {}", fresh.display(), seed.display());
        }
    }
}
