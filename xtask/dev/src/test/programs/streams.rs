//! Tests of a guest's standard output and standard error: they are two streams, each complete and in order
//! (`kernel/tests/streams`).

use anyhow::{Result, ensure};

use crate::test::child::Outcome;
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Number of lines of each stream on a slow host.
const FEW_LINES: usize = 40;

/// Number of lines in tests that write the lines one by one.
const LINES: usize = 1000;

/// Number of lines that do not fit into the buffers between the guest and a reader that does not read: a
/// virtqueue and two pipes.
const MANY_LINES: usize = 60_000;

/// Start of a script. Defines the function `run`, which runs the VMM with a time limit and keeps its exit
/// code, and makes a FIFO `go`.
const PROLOGUE: &str = r#"
    folder=$(mktemp -d) && mkfifo "$folder/go" || exit 99
    run() { timeout -k 5 170 "$@"; echo $? >"$folder/code"; }
"#;

/// End of a script. Exits with the VMM's exit code.
const EPILOGUE: &str = r#"
    code=$(cat "$folder/code"); rm -r "$folder"; exit "$code"
"#;

/// Scripts in which standard error or standard output is a pipe whose reader ends at once.
const ERROR_WITHOUT_READER: &str = r#"{ { sleep 0.1; run "$@" 2>&1 >&3 3>&-; } | true; } 3>&1"#;
const OUTPUT_WITHOUT_READER: &str = r#"{ sleep 0.1; run "$@"; } | true"#;

/// Script that begins to read one stream only after the first line of the other stream has arrived.
const ERROR_READ_LATE: &str = r#"
    { run "$@" 2>&1 >&3 3>&- | { read -r _ <"$folder/go"; cat >&2; }; } 3>&1 |
        { read -r line; echo "$line"; echo >"$folder/go"; cat; }
"#;
const OUTPUT_READ_LATE: &str = r#"
    exec 5>&1
    { run "$@" 2>&4 4>&- | { read -r _ <"$folder/go"; cat >&5; }; } 4>&1 |
        { read -r line; echo "$line" >&2; echo >"$folder/go"; cat >&2; }
"#;

/// Expected texts of standard output and standard error. A stream with `None` is not checked.
type Expected = (Option<String>, Option<String>);

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let lines = if platform.is_slow() { FEW_LINES } else { LINES };
    let (output, error) = (Some(text("output", lines)), Some(text("error", lines)));
    let in_order = (0..lines).map(|number| format!("output {number}\nerror {number}\n")).collect();
    let cases: [(&str, String, Expected); 7] = [
        ("both streams in turn", "run \"$@\"".into(), (output.clone(), error.clone())),
        ("both streams in one pipe", "run \"$@\" 2>&1".into(), (Some(in_order), Some(String::new()))),
        ("standard error closed", "run \"$@\" 2>&-".into(), (output.clone(), None)),
        ("standard output closed", "run \"$@\" >&-".into(), (None, error.clone())),
        ("both streams closed", "run \"$@\" >&- 2>&-".into(), (None, None)),
        ("standard error without a reader", ERROR_WITHOUT_READER.into(), (output, None)),
        ("standard output without a reader", OUTPUT_WITHOUT_READER.into(), (None, error)),
    ];
    // QEMU itself does not start with closed streams. (`run` opens them before it starts QEMU.)
    let is_possible = |name: &str| platform.is_uhyve() || !name.ends_with("closed");
    for (name, script, expected) in cases.into_iter().filter(|(name, ..)| is_possible(name)) {
        tests.add(format!("{platform}: {name}"), move || {
            run(platform, &["alternate", &lines.to_string()], &script, &expected)
        });
    }
    if platform.is_slow() {
        return;
    }
    let many = MANY_LINES.to_string();
    let (output, error) = (text("output", MANY_LINES), text("error", MANY_LINES));
    let count = many.clone();
    let both = (Some(output.clone()), Some(error.clone()));
    tests.add(format!("{platform}: both streams at once, with big writes"), move || {
        run(platform, &["together", &count], "run \"$@\"", &both)
    });
    for (stream, script, expected) in [
        ("error", ERROR_READ_LATE, (Some("output 0\n".to_owned()), Some(error))),
        ("output", OUTPUT_READ_LATE, (Some(output), Some("error 0\n".to_owned()))),
    ] {
        let count = many.clone();
        tests.add(format!("{platform}: a blocked reader of standard {stream}"), move || {
            run(platform, &["blocked", stream, &count], script, &expected)
        });
    }
}

/// Returns all lines of a stream.
fn text(stream: &str, lines: usize) -> String {
    (0..lines).map(|number| format!("{stream} {number}\n")).collect()
}

/// Runs `kernel/tests/streams` in a script. The script must exit with code 0, and each stream must have
/// exactly the expected lines. Standard error may also have messages of the VMM about the other stream.
fn run(
    platform: &TestPlatform<'_>,
    arguments: &[&str],
    script: &str,
    (output, error): &Expected,
) -> Result<()> {
    let guest = platform.guest("streams", arguments).in_script(&[PROLOGUE, script, EPILOGUE].join("\n"));
    let outcome = guest.expect(0, &[])?;
    if let Some(expected) = output {
        has(&outcome.output, expected, &outcome)?;
    }
    if let Some(expected) = error {
        let text = outcome.error_text();
        let own: String =
            text.split_inclusive('\n').filter(|line| !line.starts_with("uhyve: warn: ")).collect();
        has(own.as_bytes(), expected, &outcome)?;
    }
    Ok(())
}

fn has(bytes: &[u8], expected: &str, outcome: &Outcome) -> Result<()> {
    ensure!(bytes == expected.as_bytes(), "a stream has other bytes than the guest wrote\n{outcome}");
    Ok(())
}
