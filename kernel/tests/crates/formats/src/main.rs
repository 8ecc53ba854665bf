//! Crates for serialisation and encodings.

crate_uses::crate_uses! {
    "base64": base64,
    "bincode": bincode,
    "bytemuck": bytemuck,
    "byteorder": byteorder,
    "ciborium": ciborium,
    "csv": csv,
    "data-encoding": data_encoding,
    "hex": hex,
    "mime": mime,
    "percent-encoding": percent_encoding,
    "postcard": postcard,
    "prost": prost,
    "quick-xml": quick_xml,
    "rmp-serde": rmp_serde,
    "ron": ron,
    "roxmltree": roxmltree,
    "serde": serde,
    "serde_json": serde_json,
    "serde_yaml": serde_yaml,
    "toml": toml,
    "typetag": typetag,
    "url": url,
    "yaml-rust2": yaml_rust2,
}

mod order;
