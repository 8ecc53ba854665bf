//! Reads and writes tables.

use csv::{ReaderBuilder, Trim, Writer};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
struct City {
    name: String,
    population: Option<u64>,
    #[serde(rename = "lat")]
    latitude: f64,
}

const TABLE: &str = "name;population;lat\nBerlin; 3782202;52.52\n\"Köln; am \"\"Rhein\"\"\";;50.938\n\nbad;x;1\n";

pub fn run() -> crate_uses::Result {
    let mut reader = ReaderBuilder::new().delimiter(b';').trim(Trim::All).from_reader(TABLE.as_bytes());
    let mut writer = Writer::from_writer(Vec::new());
    for city in reader.deserialize::<City>() {
        match city {
            Ok(city) => {
                println!("{city:?}");
                writer.serialize(city)?;
            }
            Err(error) => println!("{error}"),
        }
    }
    writer.write_record(["quoted, \"field\"", "", "\n"])?;
    print!("{}", String::from_utf8(writer.into_inner()?)?);
    let mut uneven = ReaderBuilder::new().has_headers(false).from_reader(&b"a,b\nc,d,e\n"[..]);
    for record in uneven.records() {
        println!("{:?}", record.map_err(|error| error.to_string()));
    }
    Ok(())
}
