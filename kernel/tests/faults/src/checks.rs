//! Checks of std's guarantees.

use std::cell::Cell;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::f64::consts::{LN_2, SQRT_2};
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, panic, thread};

use crate::ActionResult;

/// 1 January 2024, in seconds since the Unix epoch.
const YEAR_2024: Duration = Duration::from_secs(1_704_067_200);

/// Number of readings of a clock, for which a host that emulates the processor has seconds.
const READINGS: u32 = 20_000;

/// Returns an error with a message unless the condition holds.
fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

/// Floating point: basic arithmetic is exact where IEEE 754 demands it, and functions are accurate to 1e-14.
pub(crate) fn float() -> ActionResult {
    let sum: f64 = (1..=1000_i32).map(|number| black_box(f64::from(number))).sum();
    ensure(sum.to_bits() == 500_500_f64.to_bits(), || format!("the sum is {sum}"))?;
    let single = black_box(16_777_216_f32) + black_box(1.0);
    ensure(single.to_bits() == 16_777_216_f32.to_bits(), || format!("the single sum is {single}"))?;

    let x = black_box(2.0_f64);
    let results = [
        ("sqrt", x.sqrt(), SQRT_2),
        ("exp", x.exp(), 7.389_056_098_930_65),
        ("ln", x.ln(), LN_2),
        ("sin", x.sin(), 0.909_297_426_825_681_7),
        ("cos", x.cos(), -0.416_146_836_547_142_4),
        ("tan", x.tan(), -2.185_039_863_261_519),
        ("atan", x.atan(), 1.107_148_717_794_090_4),
        ("powf", x.powf(0.1), 1.071_773_462_536_293_1),
        ("mul_add", x.mul_add(x, 0.5), 4.5),
    ];
    for (name, result, expected) in results {
        let error = ((result - expected) / expected).abs();
        ensure(error < 1e-14, || format!("{name} of 2 is {result}, not {expected}"))?;
    }
    ensure(black_box(0.0_f64 / black_box(0.0)).is_nan(), || "0 / 0 is a number".to_owned())?;
    Ok("ok")
}

/// True if a destructor of [`DropMarker`] has run.
static DESTROYED: AtomicBool = AtomicBool::new(false);

/// A value with an alignment of 64 bytes.
#[repr(align(64))]
struct Aligned(Cell<u8>);

/// A value that records its drop.
struct DropMarker(Cell<u32>);

impl Drop for DropMarker {
    fn drop(&mut self) {
        DESTROYED.store(true, Ordering::Release);
    }
}

thread_local! {
    static INITIALISED: Cell<u64> = const { Cell::new(0x0123_4567_89ab_cdef) };
    static ALIGNED: Aligned = const { Aligned(Cell::new(7)) };
    static MARKER: DropMarker = const { DropMarker(Cell::new(1)) };
    static LAZY: Box<Cell<u32>> = Box::new(Cell::new(42));
}

/// Thread-local values: initial values, alignment and destructors, on this thread and, if one can be started,
/// on another.
pub(crate) fn tls() -> ActionResult {
    check_thread_locals()?;
    match thread::Builder::new().spawn(check_thread_locals) {
        Ok(thread) => {
            thread.join().map_err(|_| "the other thread panicked".to_owned())??;
            ensure(DESTROYED.load(Ordering::Acquire), || "no destructor ran".to_owned())?;
        }
        Err(error) => println!("no other thread: {error}"),
    }
    ensure(INITIALISED.get() == 1, || "another thread changed a value of this one".to_owned())?;
    Ok("ok")
}

/// Checks the thread-local values of a new thread, and changes them.
fn check_thread_locals() -> Result<(), String> {
    let value = INITIALISED.replace(1);
    ensure(value == 0x0123_4567_89ab_cdef, || format!("the initial value is {value:#x}"))?;
    let value = LAZY.with(|lazy| lazy.replace(0));
    ensure(value == 42, || format!("the computed value is {value}"))?;
    let address = ALIGNED.with(|aligned| (&raw const *aligned).addr());
    ensure(black_box(address).is_multiple_of(64), || format!("{address:#x} is not aligned"))?;
    let value = ALIGNED.with(|aligned| aligned.0.replace(0));
    ensure(value == 7, || format!("the aligned value is {value}"))?;
    let value = MARKER.with(|marker| marker.0.replace(0));
    ensure(value == 1, || format!("the value with a destructor is {value}"))
}

/// Clocks: `Instant` is monotonic, a sleep is not too short, and the date is plausible.
pub(crate) fn time() -> ActionResult {
    let start = Instant::now();
    let mut last = start;
    for _ in 0..READINGS {
        let now = Instant::now();
        ensure(now >= last, || format!("time went back by {:?}", last - now))?;
        last = now;
    }
    ensure(last > start, || "time stands still".to_owned())?;

    let start = Instant::now();
    thread::sleep(Duration::from_millis(20));
    let slept = start.elapsed();
    // On a busy host it may sleep longer.
    let allowed = Duration::from_millis(20)..Duration::from_secs(150);
    ensure(allowed.contains(&slept), || format!("20 ms of sleep took {slept:?}"))?;

    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ensure(since_epoch >= YEAR_2024, || format!("the date is {since_epoch:?} after 1970"))?;
    Ok("ok")
}

/// Randomness, as far as std exposes it: in the keys of hash maps.
///
/// It prints a number that differs between runs.
pub(crate) fn entropy() -> ActionResult {
    let (one, other) = (RandomState::new(), RandomState::new());
    ensure(one.hash_one(0) != other.hash_one(0), || "two hash maps have the same keys".to_owned())?;
    let without_keys = BuildHasherDefault::<DefaultHasher>::new().hash_one(0);
    ensure(one.hash_one(0) != without_keys, || "the keys of hash maps are zero".to_owned())?;
    let keys: HashSet<u64> = (0..1000).map(|number: u32| RandomState::new().hash_one(number)).collect();
    ensure(keys.len() == 1000, || format!("only {} of 1000 keys are distinct", keys.len()))?;
    println!("random number: {:016x}", one.hash_one(0));
    Ok("ok")
}

/// Features that the system may lack must return an error, not panic.
pub(crate) fn io_errors() -> ActionResult {
    match File::open("/there/is/no/such/file") {
        Ok(_) => return Err("a file that does not exist was opened".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
            println!("open: {error}");
        }
        Err(error) => return Err(format!("opening a file failed with {error}")),
    }
    for (number, kind) in [(116, ErrorKind::StaleNetworkFileHandle), (122, ErrorKind::QuotaExceeded)] {
        let error = io::Error::from_raw_os_error(number);
        ensure(error.kind() == kind, || format!("{error} is of the kind {:?}", error.kind()))?;
    }
    let text = io::Error::from_raw_os_error(200).to_string();
    ensure(text == "Unknown error 200 (os error 200)", || format!("error 200 is {text}"))?;
    match TcpListener::bind("127.0.0.1:0") {
        Ok(_) => println!("bind: works"),
        Err(error) => println!("bind: {error}"),
    }
    match thread::Builder::new().spawn(|| 42) {
        Ok(thread) => {
            let result = thread.join().map_err(|_| "the thread panicked".to_owned())?;
            ensure(result == 42, || format!("the thread gave {result}"))?;
            println!("spawn: works");
        }
        Err(error) => println!("spawn: {error}"),
    }
    Ok("ok")
}

/// Names and values of variables that no environment can have are refused, as on Linux: std panics.
#[expect(unsafe_code, reason = "another thread could use the environment")]
pub(crate) fn environment() -> ActionResult {
    if !cfg!(panic = "unwind") {
        return Ok("ok");
    }
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0B", "x"), ("A", "x\0y")] {
        // SAFETY: the program has one thread, so no other one uses the environment meanwhile.
        let set = panic::catch_unwind(|| unsafe { env::set_var(name, value) });
        ensure(set.is_err(), || format!("{name:?} was set to {value:?}"))?;
    }
    for name in ["", "A=B", "A\0B"] {
        // SAFETY: the program has one thread, so no other one uses the environment meanwhile.
        let removed = panic::catch_unwind(|| unsafe { env::remove_var(name) });
        ensure(removed.is_err(), || format!("{name:?} was removed"))?;
    }
    ensure(env::var_os("A").is_none(), || "a variable was set".to_owned())?;
    Ok("ok")
}
