//! Which tests passed.

use std::time::Instant;

use anyhow::{Result, bail};

/// Counts tests and prints a line for each.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    /// Runs a test.
    pub(crate) fn check(&mut self, name: &str, test: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let result = test();
        let time = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("ok      {name} ({time:.2} s)");
                self.passed += 1;
            }
            Err(error) => {
                println!("FAILED  {name} ({time:.2} s)\n{error:#}\n");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Notes what this machine cannot test.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("skipped {name}: {reason}");
        self.skipped.push(format!("{name}: {reason}"));
    }

    /// Prints the sum; an error if a test failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!();
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            bail!("{} tests failed", self.failed.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_failure_is_counted() {
        let mut report = Report::default();
        report.check("good", || Ok(()));
        assert_eq!((report.passed, report.failed.len()), (1, 0));
        report.check("bad", || anyhow::bail!("as expected"));
        assert_eq!((report.passed, report.failed.as_slice()), (1, &["bad".to_owned()][..]));
        assert!(report.finish().is_err());
    }

    #[test]
    fn what_is_skipped_does_not_count() {
        let mut report = Report::default();
        report.skip("a ring", "there is no such device");
        assert_eq!((report.passed, report.failed.len(), report.skipped.len()), (0, 0, 1));
        assert!(report.finish().is_ok());
        assert!(Report::default().finish().is_ok());
    }
}
