//! `log` to standard error: one line per record, warnings and errors unless `RUST_LOG` is set, limited by a
//! quota per place in the program. Real-time threads do not log; they only count events, and a non-real-time
//! thread logs for them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use log::{Level, Log, Metadata, Record};

use super::held_log;
use super::log_rate_limit::LogRateLimit;
use super::output;
use crate::base::time::{Clock, Instant, MonotonicClock};
use crate::system::sanitize;

/// How many characters of a dropped line are kept, to show which line it was.
const REMEMBERED: usize = 120;

static LOGGER: OnceLock<Limited> = OnceLock::new();

/// Starts logging. Call once, before anything else.
pub(super) fn start() {
    let default = env_logger::Env::default().default_filter_or("warn");
    let mut builder = env_logger::Builder::from_env(default);
    builder.target(env_logger::Target::Pipe(Box::new(held_log::Destination)));
    builder.format(|to, record| {
        // One line per record: the second line of a record would lack the journal's prefix.
        let words = record.args().to_string().replace('\n', "; ");
        let words = sanitize::one_line(&words);
        match output::journal_prefix(record.level()) {
            "" => writeln!(to, "{}: {words}", record.level().as_str().to_lowercase()),
            prefix => writeln!(to, "{prefix}{words}"),
        }
    });
    let logger = LOGGER.get_or_init(|| Limited::new(builder.build()));
    if log::set_logger(logger).is_ok() {
        log::set_max_level(logger.inner.filter());
    }
}

/// Called at the end: reports how many messages were dropped since the last report.
pub(super) fn end() {
    if let Some(logger) = LOGGER.get() {
        logger.settle(LogRateLimit::take_dropped);
    }
}

/// A place in the program that logs: file and line, or the target if they are unknown.
type Site = (String, u32);

/// The log quota of one place, and its last dropped line.
struct Said {
    rate_limit: LogRateLimit,
    level: Level,
    target: String,
    /// The start of the last dropped line.
    last: String,
}

/// A logger with a quota for each place in the program, whatever input provokes its messages.
struct Limited {
    inner: env_logger::Logger,
    /// One entry per place that logs.
    sites: Mutex<BTreeMap<Site, Said>>,
}

impl Limited {
    fn new(inner: env_logger::Logger) -> Limited {
        Limited { inner, sites: Mutex::default() }
    }

    fn log_at(&self, record: &Record<'_>, now: Instant) {
        if !self.inner.matches(record) {
            return;
        }
        let left_out = {
            let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
            let site = (record.file().unwrap_or(record.target()).to_string(), record.line().unwrap_or(0));
            let fresh = || Said {
                rate_limit: LogRateLimit::FULL,
                level: record.level(),
                target: record.target().to_string(),
                last: String::new(),
            };
            let said = sites.entry(site).or_insert_with(fresh);
            let Some(left_out) = said.rate_limit.ask(now) else {
                said.last = record.args().to_string().chars().take(REMEMBERED).collect();
                return;
            };
            left_out
        };
        match left_out {
            0 => self.inner.log(record),
            more => self.pass(
                record.metadata().clone(),
                format_args!("{} ({more} similar messages were dropped before it)", record.args()),
            ),
        }
    }

    /// Logs how many messages were dropped, for each place for which `due` returns a number.
    fn settle(&self, due: impl Fn(&mut LogRateLimit) -> Option<u64>) {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        for said in sites.values_mut() {
            if let Some(more) = due(&mut said.rate_limit) {
                self.pass(
                    Metadata::builder().level(said.level).target(&said.target).build(),
                    format_args!("{more} messages were dropped, the last one: {}", said.last),
                );
            }
        }
    }

    fn pass(&self, about: Metadata<'_>, words: std::fmt::Arguments<'_>) {
        self.inner.log(&Record::builder().metadata(about).args(words).build());
    }
}

impl Log for Limited {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.log_at(record, MonotonicClock.now());
    }

    /// Logs the number of dropped messages where the quota allows it; call this periodically.
    fn flush(&self) {
        let now = MonotonicClock.now();
        self.settle(|rate_limit| rate_limit.settle(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;
    use std::sync::Arc;

    /// A log destination that keeps what is written to it.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_string).collect()
        }
    }

    fn limited(paper: &Paper) -> Limited {
        let mut builder = env_logger::Builder::new();
        builder.filter_level(log::LevelFilter::Warn);
        builder.format(|to, record| writeln!(to, "{}: {}", record.level(), record.args()));
        builder.target(env_logger::Target::Pipe(Box::new(paper.clone())));
        Limited::new(builder.build())
    }

    fn say(logger: &Limited, line: u32, level: Level, words: &str, now: Instant) {
        let record = format_args!("{words}");
        let record = Record::builder().level(level).file(Some("a.rs")).line(Some(line)).args(record).build();
        logger.log_at(&record, now);
    }

    #[test]
    fn a_flooding_place_hides_no_other_and_is_counted() {
        let paper = Paper::default();
        let logger = limited(&paper);
        for line in 0..100_000 {
            say(&logger, 7, Level::Warn, &format!("bad frame {line}"), at(1_000));
        }
        let flood = paper.lines().len();
        assert!(flood <= 50, "{flood} lines");
        say(&logger, 8, Level::Error, "something else", at(1_000));
        say(&logger, 7, Level::Info, "filtered, so not counted as dropped", at(1_000));
        assert_eq!(paper.lines()[flood..], ["ERROR: something else"]);
        // The quota allows one more line, which reports the count.
        say(&logger, 7, Level::Warn, "bad frame again", at(12_000));
        let left_out = 100_000 - flood;
        let told = format!("WARN: bad frame again ({left_out} similar messages were dropped before it)");
        assert_eq!(paper.lines()[flood + 1..], [told]);
    }

    #[test]
    fn dropped_messages_are_reported_at_the_end_at_latest() {
        let paper = Paper::default();
        let logger = limited(&paper);
        (0..1_000).for_each(|line| say(&logger, 7, Level::Warn, &format!("bad frame {line}"), at(1_000)));
        let flood = paper.lines().len();
        logger.settle(LogRateLimit::take_dropped);
        logger.settle(LogRateLimit::take_dropped);
        let told = format!("WARN: {} messages were dropped, the last one: bad frame 999", 1_000 - flood);
        assert_eq!(paper.lines()[flood..], [told]);
    }
}
