//! Reads variables from a file, with quotes and substitution.

use std::{env, fs};

use crate::settings::folder;

const FILE: &str = "# a comment
CRATES_PLAIN=text
export CRATES_QUOTED=\"two words\\n\"
CRATES_RAW='$CRATES_PLAIN'
CRATES_COMBINED=${CRATES_PLAIN}/$CRATES_QUOTED
CRATES_EMPTY=
";

pub fn run() -> crate_uses::Result {
    let folder = folder("dotenvy")?;
    fs::write(folder.join(".env"), FILE)?;
    for item in dotenvy::from_path_iter(folder.join(".env"))? {
        println!("{:?}", item?);
    }
    dotenvy::from_path(folder.join(".env"))?;
    println!("{:?} {:?}", env::var("CRATES_RAW"), dotenvy::var("CRATES_COMBINED"));
    for text in ["A B=c", "A=\"b", "A=b c"] {
        let parsed: Result<Vec<_>, _> = dotenvy::from_read_iter(text.as_bytes()).collect();
        println!("{:?}", parsed.map_err(|error| error.to_string()));
    }
    println!("{}", dotenvy::from_path(folder.join("none")).is_err_and(|error| error.not_found()));
    env::set_current_dir(&folder)?;
    println!("{}", dotenvy::dotenv()?.file_name().is_some_and(|name| name == ".env"));
    fs::remove_dir_all(folder)?;
    Ok(())
}
