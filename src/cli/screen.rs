//! The screen: one page on a terminal that shows what a robot is doing, either this program's (`ganglion
//! run`) or another program's (`ganglion top`).
//!
//! It reads only what the status publishes, at most ten times a second, in a low-priority thread or a
//! separate process. No thread of the robot waits for it: a terminal that does not accept its output blocks
//! only the screen.
//!
//! `model` holds the data to show. `draw` renders them as a page without changing them; `panels`, `room`,
//! `slices`, `words` and `colours` make the parts of that page. `keys` handles the keys, `robot` is the robot
//! that the keys act on, `terminal` sets up and restores the terminal, `own_run` is the screen's thread in a
//! run, and `top` is the command.

mod colours;
mod draw;
mod keys;
mod model;
mod own_run;
mod panels;
mod robot;
mod room;
mod show;
mod slices;
mod terminal;
mod top;
mod words;

pub use own_run::OwnRun;
pub use terminal::{check, is_wanted};
pub use top::{Args, run};
