//! Crates for serialisation and encodings.

mod binary;
mod encodings;
mod memory;
mod names;
mod order;
mod serde;
mod texts;
mod typetag;
mod xml;
mod yaml;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("base64", encodings::base64),
        ("bincode", binary::bincode),
        ("bytemuck", memory::bytemuck),
        ("byteorder", memory::byteorder),
        ("ciborium", binary::ciborium),
        ("csv", texts::csv),
        ("data-encoding", encodings::data_encoding),
        ("hex", encodings::hex),
        ("mime", names::mime),
        ("percent-encoding", encodings::percent_encoding),
        ("postcard", binary::postcard),
        ("prost", binary::prost),
        ("quick-xml", xml::quick_xml),
        ("rmp-serde", binary::rmp_serde),
        ("ron", texts::ron),
        ("roxmltree", xml::roxmltree),
        ("serde", serde::run),
        ("serde_json", texts::serde_json),
        ("serde_yaml", yaml::serde_yaml),
        ("toml", texts::toml),
        ("typetag", typetag::run),
        ("url", names::url),
        ("yaml-rust2", yaml::yaml_rust2),
    ])
}
