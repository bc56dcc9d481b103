//! `log` to standard error: one line a record, warnings and worse unless `RUST_LOG` says otherwise.
//! Real-time threads do not log; they count, and a slow thread logs for them.

use std::io::Write;

use super::output;
use crate::outside;

/// Starts logging. Call once, before anything else.
pub(super) fn start() {
    let default = env_logger::Env::default().default_filter_or("warn");
    let mut builder = env_logger::Builder::from_env(default);
    builder.format(|to, record| {
        // Multi-line records would lose the journal's prefix from their second line on.
        let words = record.args().to_string().replace('\n', "; ");
        let words = outside::one_line(&words);
        match output::journal_prefix(record.level()) {
            "" => writeln!(to, "{}: {words}", record.level().as_str().to_lowercase()),
            prefix => writeln!(to, "{prefix}{words}"),
        }
    });
    builder.init();
}
