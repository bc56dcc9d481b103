//! The screen: one page on a terminal that shows what a robot does, of a run (`ganglion run`) or of another
//! program's (`ganglion top`).
//!
//! It reads only what the status publishes, at most ten times a second, in a thread of low priority or in a
//! process of its own. No thread of the robot waits for it: a terminal that does not accept its output blocks
//! only the screen.
//!
//! `model` is what there is to show, `draw` makes a page of it and changes nothing, `panels`, `room` and
//! `words` are parts of that page. `keys` is what a key does, `robot` whom it does it to, `terminal` takes
//! the terminal and gives it back, `own_run` is the thread beside a run, `top` is the verb.

mod draw;
mod keys;
mod model;
mod own_run;
mod panels;
mod robot;
mod room;
mod show;
mod terminal;
mod top;
mod words;

pub use own_run::OwnRun;
pub use terminal::{has_colour, is_usable};
pub use top::{Args, run};
