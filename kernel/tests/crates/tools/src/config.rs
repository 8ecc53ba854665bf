//! Settings of several layers.

use std::fs;

use config::{Config, Environment, File, FileFormat};

use crate::settings::{Settings, folder};

pub fn run() -> crate_uses::Result {
    let folder = folder("config")?;
    fs::write(folder.join("base.toml"), "name = \"base\"\nport = 80\n[limits]\nrate = 1.5\n")?;
    let variables = [("APP_PORT", "9090"), ("APP_LIMITS__SIZE", "4")].map(|(key, value)| (key.to_owned(), value.to_owned()));
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
    let wrong = Config::builder().add_source(File::from_str("name = 1\nport = \"many\"", FileFormat::Toml)).build()?;
    println!("{:?}", wrong.try_deserialize::<Settings>().map_err(|error| error.to_string()));
    fs::remove_dir_all(folder)?;
    Ok(())
}
