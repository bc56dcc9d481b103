//! Headless Chromium: opens a page, waits until its scripts are done, and prints the document.

use crate::folder::Folder;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Virtual time that a page gets, milliseconds. It elapses as fast as the page's scripts run.
const TIME_MS: &str = "20000";
/// Names under which distributions install Chromium.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Options that make the browser prefer dark colours.
pub const DARK: [&str; 2] = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"];

/// A browser.
pub struct Browser(&'static str);

/// A page as the browser showed it.
pub struct Shown {
    /// The document as HTML, after its scripts.
    pub document: String,
    /// Console messages and failed loads.
    pub errors: Vec<String>,
}

impl Browser {
    /// The browser of this machine, if it has one.
    pub fn find() -> Option<Browser> {
        let runs = |name: &&str| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        NAMES.into_iter().find(runs).map(Browser)
    }

    /// Opens the page, and prints the document.
    pub fn shown(&self, page: &str) -> Shown {
        let output = self.open(page, &["--dump-dom"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stderr);
        let errors = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_string).collect();
        Shown { document: text(&output.stdout), errors }
    }

    /// Saves a screenshot of the page in the tests' folder, for a person to look at.
    pub fn keep_picture(&self, page: &str, name: &str, options: &[&str]) -> PathBuf {
        let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_file(&picture);
        let option = format!("--screenshot={}", picture.display());
        self.open(page, &[&[option.as_str(), "--hide-scrollbars"], options].concat());
        picture
    }

    /// Runs the browser with its own profile.
    fn open(&self, page: &str, options: &[&str]) -> Output {
        let profile = Folder::new("browser");
        let mut command = Command::new(self.0);
        command.args(["--headless=new", "--disable-gpu", "--window-size=1200,6000", "--no-first-run"]);
        // Chromium's sandbox refuses to run as root; the page is ours.
        command.args(["--no-sandbox", "--enable-logging=stderr", "--v=0"]).args(options);
        command.arg(format!("--virtual-time-budget={TIME_MS}"));
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg(format!("file://{page}")).output().expect("the browser starts")
    }
}

impl Shown {
    /// The value of the first attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let begin = format!("{name}=\"");
        let from = self.document.find(&begin)? + begin.len();
        self.document[from..].split('"').next().map(str::to_string)
    }
}
