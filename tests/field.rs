//! Scripts that an operator runs on a laptop, for robots.

mod connections; // one for all calls to a robot, and none left behind
mod flash; // a package is installed or refused, and nothing is left half done
mod rollback; // back to the previous version, even if the installed program is broken
mod scene; // a laptop, and robots behind a simulated ssh
