//! A store of texts by key. Each change is appended to a log, and an index of the log is in memory.
//!
//! A change is durable when its function returns. A crash can damage only the last record of the log, which
//! may then be incomplete. [`Store::open`] moves the bytes after the last complete record to a file beside
//! the log.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::record::Record;

/// First bytes of a log: the name and version of its format.
const MAGIC: [u8; 8] = *b"notes\0\0\x01";

/// Name of the log.
const LOG: &str = "notes.log";

/// Name of a new log while it is written, before it replaces the old log.
const NEW_LOG: &str = "notes.log.new";

/// Name of the file for bytes that are not a complete record.
const DAMAGED: &str = "notes.damaged";

/// Minimum garbage in bytes for a compaction. The log is compacted when its garbage is larger than this and
/// larger than the records in use.
const MIN_GARBAGE: u64 = 1 << 20;

/// Notes by key.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    log: File,
    /// Size of the log.
    end: u64,
    /// Bytes of the records in the index.
    used: u64,
    index: BTreeMap<String, Place>,
}

/// Position and size of a note's record in the log.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    size: u64,
}

impl Store {
    /// Opens the store in a folder. Creates the folder and the store if they do not exist. Also returns the
    /// number of bytes after the last complete record that were moved to [`DAMAGED`].
    ///
    /// # Errors
    ///
    /// Fails with `InvalidData` if the log in the folder is not a log of notes, with `ResourceBusy` if
    /// another process has opened it, or with the error of a call.
    pub(crate) fn open(folder: &Path) -> io::Result<(Self, u64)> {
        fs::create_dir_all(folder)?;
        // A crash may leave a new log. The old log is complete then.
        remove_if_exists(&folder.join(NEW_LOG))?;
        let log = open_log(&folder.join(LOG))?;
        let mut store = Self { folder: folder.into(), log, end: 0, used: 0, index: BTreeMap::new() };
        let size = store.log.metadata()?.len();
        if size < magic_size() && MAGIC.starts_with(&read_all(&mut store.log)?) {
            store.start()?;
            return Ok((store, 0));
        }
        store.recover()?;
        let damaged = size.saturating_sub(store.end);
        if damaged > 0 {
            store.set_damaged_aside()?;
        }
        Ok((store, damaged))
    }

    /// Number of notes.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the keys that begin with a prefix, in order.
    pub(crate) fn keys<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let keys = self
            .index
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(key, _)| key.as_str());
        keys.take_while(move |key| key.starts_with(prefix))
    }

    /// Returns the text of a note.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidData` if the record has been damaged since it was written, or with the error of a
    /// read.
    pub(crate) fn get(&mut self, key: &str) -> io::Result<Option<String>> {
        let Some(place) = self.index.get(key) else { return Ok(None) };
        self.log.seek(SeekFrom::Start(place.offset))?;
        Ok(Record::read(&mut self.log)?.text)
    }

    /// Sets the text of a note.
    ///
    /// # Errors
    ///
    /// Fails without a change if the log cannot be written, for example with `StorageFull`.
    pub(crate) fn put(&mut self, key: &str, text: &str) -> io::Result<()> {
        self.append(&Record { key: key.to_owned(), text: Some(text.to_owned()) })?;
        self.compact_if_worthwhile()
    }

    /// Removes a note. Returns true if the note existed.
    ///
    /// # Errors
    ///
    /// As [`Self::put`].
    pub(crate) fn remove(&mut self, key: &str) -> io::Result<bool> {
        if !self.index.contains_key(key) {
            return Ok(false);
        }
        self.append(&Record { key: key.to_owned(), text: None })?;
        self.compact_if_worthwhile()?;
        Ok(true)
    }

    /// Rewrites the log so that it has only the present notes. Returns how many bytes that has saved.
    ///
    /// # Errors
    ///
    /// Fails without a change if the new log cannot be written.
    pub(crate) fn compact(&mut self) -> io::Result<u64> {
        let path = self.folder.join(NEW_LOG);
        let outcome = self.write_compacted(&path);
        let log = outcome.inspect_err(|_| {
            // An error is ignored: a partial file is removed when the store is opened again.
            let _: io::Result<()> = fs::remove_file(&path);
        })?;
        fs::rename(&path, self.folder.join(LOG))?;
        sync_folder(&self.folder)?;
        let size = self.end;
        self.log = log;
        self.recover()?;
        Ok(size.saturating_sub(self.end))
    }

    /// Writes the present notes to a new log.
    fn write_compacted(&mut self, path: &Path) -> io::Result<File> {
        let mut new = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        lock(&new)?;
        new.write_all(&MAGIC)?;
        for place in self.index.values() {
            self.log.seek(SeekFrom::Start(place.offset))?;
            let count = io::copy(&mut (&self.log).take(place.size), &mut new)?;
            if count < place.size {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        new.sync_all()?;
        Ok(new)
    }

    fn compact_if_worthwhile(&mut self) -> io::Result<()> {
        let garbage = self.end.saturating_sub(self.used);
        if garbage > MIN_GARBAGE && garbage > self.used { self.compact().map(drop) } else { Ok(()) }
    }

    /// Appends a record and makes it durable.
    fn append(&mut self, record: &Record) -> io::Result<()> {
        let bytes = record.encode()?;
        self.log.seek(SeekFrom::Start(self.end))?;
        let written = self.log.write_all(&bytes).and_then(|()| self.log.sync_data());
        if let Err(error) = written {
            // If this call fails, too, the next record overwrites the bytes, or the next [`Self::open`] moves
            // them to [`DAMAGED`].
            let _: io::Result<()> = self.log.set_len(self.end);
            return Err(error);
        }
        self.add(record);
        Ok(())
    }

    /// Enters the record at the log's end into the index.
    fn add(&mut self, record: &Record) {
        let place = Place { offset: self.end, size: record.size() };
        let old = match record.text {
            Some(_) => self.index.insert(record.key.clone(), place),
            None => self.index.remove(&record.key),
        };
        self.used -= old.map_or(0, |old| old.size);
        self.used += if record.text.is_some() { place.size } else { 0 };
        self.end += place.size;
    }

    /// Begins an empty log.
    fn start(&mut self) -> io::Result<()> {
        self.log.rewind()?;
        self.log.write_all(&MAGIC)?;
        self.log.sync_all()?;
        sync_folder(&self.folder)?;
        self.end = magic_size();
        Ok(())
    }

    /// Builds the index from the complete records of the log.
    fn recover(&mut self) -> io::Result<()> {
        (self.end, self.used) = (magic_size(), 0);
        self.index.clear();
        self.log.rewind()?;
        let mut log = BufReader::new(self.log.try_clone()?);
        let mut magic = MAGIC;
        log.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("`{LOG}` is no log of notes")));
        }
        loop {
            match Record::read(&mut log) {
                Ok(record) => self.add(&record),
                Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::InvalidData].contains(&error.kind()) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves the bytes after the last complete record to a file beside the log.
    fn set_damaged_aside(&mut self) -> io::Result<()> {
        self.log.seek(SeekFrom::Start(self.end))?;
        let mut damaged = File::create(self.folder.join(DAMAGED))?;
        io::copy(&mut self.log, &mut damaged)?;
        damaged.sync_all()?;
        self.log.set_len(self.end)?;
        self.log.sync_all()
    }
}

/// Opens the log, and locks it for this process. Creates the file if it does not exist.
fn open_log(path: &Path) -> io::Result<File> {
    let log = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    lock(&log)?;
    Ok(log)
}

fn lock(log: &File) -> io::Result<()> {
    log.try_lock().map_err(|error| match error {
        fs::TryLockError::Error(error) => error,
        fs::TryLockError::WouldBlock => {
            io::Error::new(ErrorKind::ResourceBusy, "another process uses these notes")
        }
    })
}

fn read_all(log: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn magic_size() -> u64 {
    u64::try_from(MAGIC.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
