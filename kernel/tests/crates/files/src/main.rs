//! Crates for files, archives and databases.

crate_uses::crate_uses! {
    "brotli": brotli,
    "camino": camino,
    "filetime": filetime,
    "fjall": fjall,
    "flate2": flate2,
    "fs_extra": fs_extra,
    "glob": glob,
    "globset": globset,
    "ignore": ignore,
    "lz4_flex": lz4_flex,
    "memmap2": memmap2,
    "path-absolutize": path_absolutize,
    "redb": redb,
    "same-file": same_file,
    "sled": sled,
    "snap": snap,
    "tantivy": tantivy,
    "tar": tar,
    "tempfile": tempfile,
    "tracing-appender": tracing_appender,
    "walkdir": walkdir,
    "zip": zip,
}

mod folder;
