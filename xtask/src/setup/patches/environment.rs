//! The patches to the variables of the environment: a list instead of a map.
//!
//! A map takes random numbers; without a source of them std panics, and the panic's report reads a variable.
//! It also is the only one of many programs. A variable that occurs twice has its last value.

use super::Patch;

const ENVIRONMENT: &str = "std/src/sys/env/hermit.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch { file: ENVIRONMENT, old: "use crate::collections::HashMap;\n", new: "" },
    Patch {
        file: ENVIRONMENT,
        old: "use crate::sync::Mutex;

static ENV: Mutex<Option<HashMap<OsString, OsString>>> = Mutex::new(None);

pub fn init(env: *const *const c_char) {
    let mut guard = ENV.lock().unwrap();
    let map = guard.insert(HashMap::new());

",
        new: "use crate::sync::nonpoison::Mutex;

static ENV: Mutex<Vec<(OsString, OsString)>> = Mutex::new(Vec::new());

pub fn init(env: *const *const c_char) {
    let mut variables = ENV.lock();

",
    },
    Patch {
        file: ENVIRONMENT,
        old: "            if let Some((key, value)) = parse(CStr::from_ptr(*environ).to_bytes()) {
                map.insert(key, value);
            }
",
        new: "            if let Some(variable) = parse(CStr::from_ptr(*environ).to_bytes()) {
                variables.push(variable);
            }
",
    },
    Patch {
        file: ENVIRONMENT,
        old: "    let guard = ENV.lock().unwrap();
    let env = guard.as_ref().unwrap();

    let result = env.iter().map(|(key, value)| (key.clone(), value.clone())).collect();

    Env::new(result)
",
        new: "    let variables = ENV.lock();
    let is_last = |&(index, (key, _)): &(usize, &(OsString, OsString))| {
        variables[index + 1..].iter().all(|(other, _)| other != key)
    };
    let result = variables.iter().enumerate().filter(is_last).map(|(_, variable)| variable.clone());
    Env::new(result.collect())
",
    },
    Patch {
        file: ENVIRONMENT,
        old: "    ENV.lock().unwrap().as_ref().unwrap().get(k).cloned()
",
        new: "    let variables = ENV.lock();
    variables.iter().rev().find(|(key, _)| key == k).map(|(_, value)| value.clone())
",
    },
    // Names and values that `setenv` refuses.
    Patch {
        file: ENVIRONMENT,
        old: "pub unsafe fn setenv(k: &OsStr, v: &OsStr) -> io::Result<()> {
",
        new: "/// Fails as `setenv` does if a name is empty or has a `=`, or if it or the value has a NUL byte.
fn check(name: &OsStr, value: &OsStr) -> io::Result<()> {
    let [name, value] = [name, value].map(OsStr::as_encoded_bytes);
    if name.contains(&0) || value.contains(&0) {
        return Err(io::const_error!(io::ErrorKind::InvalidInput, \"file name contained an unexpected NUL byte\"));
    }
    if name.is_empty() || name.contains(&b'=') {
        return Err(io::Error::from_raw_os_error(hermit_abi::errno::EINVAL));
    }
    Ok(())
}

pub unsafe fn setenv(k: &OsStr, v: &OsStr) -> io::Result<()> {
    check(k, v)?;
",
    },
    Patch {
        file: ENVIRONMENT,
        old: "pub unsafe fn unsetenv(k: &OsStr) -> io::Result<()> {
",
        new: "pub unsafe fn unsetenv(k: &OsStr) -> io::Result<()> {
    check(k, OsStr::new(\"\"))?;
",
    },
    Patch {
        file: ENVIRONMENT,
        old: "    ENV.lock().unwrap().as_mut().unwrap().insert(k, v);
",
        new: "    let mut variables = ENV.lock();
    match variables.iter_mut().rev().find(|(key, _)| *key == k) {
        Some((_, value)) => *value = v,
        None => variables.push((k, v)),
    }
",
    },
    Patch {
        file: ENVIRONMENT,
        old: "    ENV.lock().unwrap().as_mut().unwrap().remove(k);
",
        new: "    ENV.lock().retain(|(key, _)| key != k);
",
    },
];
