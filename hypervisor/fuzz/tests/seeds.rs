//! Runs the fuzz targets on their seeds and corpora: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use hermit_interface::image::{self, sample::Sample};
    use std::fs;
    use std::path::{Path, PathBuf};
    use uhyve_fuzz::TARGETS;

    /// Seeds are written by hand; corpora are what the fuzzer has found, minimised.
    const FOLDERS: [&str; 2] = ["seeds", "corpus"];

    fn files(folder: &str, target: &str) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target);
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn all_seeds_and_corpora_pass_their_target() {
        for (name, target) in TARGETS {
            let inputs = FOLDERS.map(|folder| files(folder, name));
            assert!(inputs.iter().all(|inputs| !inputs.is_empty()), "{name}");
            for input in inputs.concat() {
                println!("{}", input.display());
                target(&fs::read(input).unwrap());
            }
        }
    }

    #[test]
    fn every_folder_has_a_target() {
        for folder in FOLDERS.into_iter().flat_map(|folder| files(folder, "")) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
        }
    }

    /// With another version the target would parse nothing of them.
    #[test]
    fn seeds_of_boot_information_are_of_this_version() {
        for seed in files("seeds", "boot_info") {
            let version = u32::from_le_bytes(fs::read(&seed).unwrap()[8..12].try_into().unwrap());
            assert_eq!(version, hermit_interface::note::ABI_VERSION, "{}", seed.display());
        }
    }

    #[test]
    fn image_seeds_are_valid() {
        for seed in files("seeds", "image") {
            if let Err(error) = image::check(&fs::read(&seed).unwrap()) {
                let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
                fs::write(&fresh, Sample::default().build()).unwrap();
                panic!("{error}: copy {} to {}", fresh.display(), seed.display());
            }
        }
    }
}
