//! Crates for numbers, time, identifiers and pictures.

crate_uses::crate_uses! {
    "chrono": chrono,
    "humantime": humantime,
    "image": image,
    "jiff": jiff,
    "nalgebra": nalgebra,
    "nanoid": nanoid,
    "ndarray": ndarray,
    "num-bigint": num_bigint,
    "num-rational": num_rational,
    "num-traits": num_traits,
    "plotters": plotters,
    "rust_decimal": rust_decimal,
    "time": time,
    "ulid": ulid,
    "uuid": uuid,
}
