//! Compares versions and requirements.

use semver::{BuildMetadata, Prerelease, Version, VersionReq};

pub fn run() -> crate_uses::Result {
    let mut versions: Vec<Version> = ["1.2.3", "1.2.3-beta.2", "1.10.0", "1.2.3-beta.10", "0.3.9", "2.0.0+build.5"]
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    versions.sort();
    println!("{}", versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" < "));
    for text in ["^1.2", "~1.2.3", ">=1.2.3-beta, <2", "0.3.*", "="] {
        match VersionReq::parse(text) {
            Ok(requirement) => {
                let matching: Vec<_> = versions.iter().filter(|version| requirement.matches(version)).collect();
                println!("{requirement}: {}", matching.len());
            }
            Err(error) => println!("{error}"),
        }
    }
    let version = Version { pre: Prerelease::new("rc.1")?, build: BuildMetadata::new("a7")?, ..Version::new(9, 0, 1) };
    println!("{version} {:?}", Version::parse("1.x"));
    Ok(())
}
