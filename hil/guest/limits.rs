//! How long a robot may take to stop: computed from the board's own figures, and described in text for a row.

use ganglion::base::plan::Board;
use ganglion::base::time::Span;

/// A generous limit for two stop frames and their system calls: the frames take 0.2 ms at 400 kHz.
const STOP_FRAMES: Span = Span::from_millis(2);

/// The limit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A control period plus the bus time: for events that are noticed at once.
    Period,
    /// A sensor's age limit, then [`Limit::Period`]: for a silent sensor. The value is the sensor's name.
    Stale(&'static str),
    /// The time until a sensor that repeats itself counts as frozen, its age limit, then [`Limit::Period`].
    Frozen(&'static str),
    /// The guard's timeout plus 20 ms.
    GuardTimeout,
    /// The validity of a command on the wire, then [`Limit::Period`].
    CommandValid,
    /// This many milliseconds.
    Ms(u64),
}

impl Limit {
    /// The limit on this board.
    pub fn span(self, board: &Board) -> Span {
        let period = board.period + bus_time(board);
        let sensor = |name| board.sensors.iter().find(|sensor| sensor.name == name);
        match self {
            Limit::Period => period,
            Limit::Stale(name) => sensor(name).map_or(Span::ZERO, |s| s.max_age) + period,
            Limit::Frozen(name) => {
                let repeats = |s: &ganglion::base::plan::SensorPlan| {
                    s.period.times(s.frozen_after.unwrap_or(0).into()) + s.period + s.max_age
                };
                sensor(name).map_or(Span::ZERO, repeats) + period
            }
            Limit::GuardTimeout => {
                board.guard.as_ref().map_or(Span::ZERO, |guard| guard.timeout) + Span::from_millis(20)
            }
            Limit::CommandValid => board.safety.command_valid + period,
            Limit::Ms(ms) => Span::from_millis(ms),
        }
    }

    /// Its parts, as text.
    pub fn text(self) -> String {
        let period = "a control period + bus time";
        match self {
            Limit::Period => period.into(),
            Limit::Stale(name) => format!("age limit of {name} + {period}"),
            Limit::Frozen(name) => format!("repeats and age limit of {name} + {period}"),
            Limit::GuardTimeout => "the guard's timeout + 20 ms".into(),
            Limit::CommandValid => format!("validity of a command + {period}"),
            Limit::Ms(ms) => format!("{ms} ms"),
        }
    }
}

/// Longest time until a stop is on the wire: first a hung transfer must end, then the stop frames follow.
pub fn bus_time(board: &Board) -> Span {
    board.i2c.first().map_or(Span::ZERO, |bus| bus.timing.timeout) + STOP_FRAMES
}

#[cfg(test)]
mod tests {
    use super::*;
    use ganglion::deploy::board;

    #[test]
    fn limits_come_from_the_board() {
        let board = board::built_in("picarx-v4").unwrap().unwrap().board;
        let ms = |limit: Limit| limit.span(&board).as_nanos() / 1_000_000;
        assert_eq!(ms(Limit::Period), 10 + 20 + 2);
        assert_eq!(ms(Limit::Stale("range")), 300 + 32);
        assert_eq!(ms(Limit::Frozen("ground-left")), 25 * 20 + 20 + 70 + 32);
        assert_eq!(ms(Limit::Ms(7)), 7);
    }
}
