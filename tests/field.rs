//! Robots in the field: what a person with a laptop does to them by script.

mod flash; // a package goes to robots, or is refused, and nothing is left in between
mod rollback; // back to the version before, also without the installed program
mod scene; // a laptop, and robots behind a made-up ssh
