//! Settings from layers, with profiles.

use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};

use crate::settings::Settings;

const TEXT: &str = "[default]\nname = \"plain\"\nlimits = { rate = 1.5 }\n[release]\nport = 443\n";

pub fn run() -> crate_uses::Result {
    let defaults = Settings { name: "built in".to_owned(), port: 80, limits: [("size".to_owned(), 1.0)].into() };
    let figment = Figment::from(Serialized::defaults(defaults)).merge(Toml::string(TEXT).nested());
    println!("{:?}", figment.extract::<Settings>()?);
    println!("{:?}", figment.clone().select("release").extract::<Settings>()?);
    let joined = figment.clone().join(("limits.burst", 7)).merge(("port", "x")).merge(Env::prefixed("NONE_OF_THESE_"));
    println!("{:?} {:?}", joined.extract_inner::<f64>("limits.burst"), joined.find_value("name")?.as_str());
    println!("{:?}", joined.extract::<Settings>().map_err(|error| error.kind));
    Ok(())
}
