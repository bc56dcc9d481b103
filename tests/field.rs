//! Scripts that an operator runs on a laptop, for robots.

mod flash; // a package is installed or refused, and nothing is left half done
mod rollback; // back to the previous version, also without the installed program
mod scene; // a laptop, and robots behind a simulated ssh
