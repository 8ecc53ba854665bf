//! Settings of programs.

use std::collections::BTreeMap;
use std::{env, fs};

use config::{Config, Environment, File, FileFormat};
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

use crate::folder;

/// Settings of a server.
#[derive(Debug, Deserialize, Serialize)]
struct Settings {
    name: String,
    port: u16,
    #[serde(default)]
    limits: BTreeMap<String, f64>,
}

/// Settings of several layers.
pub fn config() -> crate_uses::Result {
    let folder = folder("config")?;
    fs::write(folder.join("base.toml"), "name = \"base\"\nport = 80\n[limits]\nrate = 1.5\n")?;
    let variables = [("APP_PORT", "9090"), ("APP_LIMITS__SIZE", "4")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let environment = Environment::with_prefix("APP").separator("__").prefix_separator("_").try_parsing(true);
    let settings = Config::builder()
        .set_default("name", "default")?
        .add_source(File::from(folder.join("base")))
        .add_source(File::from(folder.join("none.toml")).required(false))
        .add_source(File::from_str("limits.burst = 3", FileFormat::Toml))
        .add_source(environment.source(Some(variables.into())))
        .set_override("limits.rate", 2.5)?
        .build()?;
    println!("{:?} {}", settings.get_string("name"), settings.get_int("limits.burst")?);
    println!("{:?}", settings.try_deserialize::<Settings>()?);
    let wrong = Config::builder()
        .add_source(File::from_str("name = 1\nport = \"many\"", FileFormat::Toml))
        .build()?;
    println!("{:?}", wrong.try_deserialize::<Settings>().map_err(|error| error.to_string()));
    fs::remove_dir_all(folder)?;
    Ok(())
}

const FILE: &str = "# a comment
CRATES_PLAIN=text
export CRATES_QUOTED=\"two words\\n\"
CRATES_RAW='$CRATES_PLAIN'
CRATES_COMBINED=${CRATES_PLAIN}/$CRATES_QUOTED
CRATES_EMPTY=
";

/// Reads variables from a file, with quotes and substitution.
pub fn dotenvy() -> crate_uses::Result {
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

const TEXT: &str = "[default]\nname = \"plain\"\nlimits = { rate = 1.5 }\n[release]\nport = 443\n";

/// Settings from layers, with profiles.
pub fn figment() -> crate_uses::Result {
    let defaults =
        Settings { name: "built in".to_owned(), port: 80, limits: [("size".to_owned(), 1.0)].into() };
    let figment = Figment::from(Serialized::defaults(defaults)).merge(Toml::string(TEXT).nested());
    println!("{:?}", figment.extract::<Settings>()?);
    println!("{:?}", figment.clone().select("release").extract::<Settings>()?);
    let joined =
        figment.clone().join(("limits.burst", 7)).merge(("port", "x")).merge(Env::prefixed("NONE_OF_THESE_"));
    println!("{:?} {:?}", joined.extract_inner::<f64>("limits.burst"), joined.find_value("name")?.as_str());
    println!("{:?}", joined.extract::<Settings>().map_err(|error| error.kind));
    Ok(())
}
