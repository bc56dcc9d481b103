//! HC-SR04 and similar: range from the length of an echo pulse, measured between the timestamps of its two
//! edges, so a late thread does not make the distance look longer. The data sheet requires 60 ms from ping to
//! ping, which the caller's schedule ensures; after a trigger into a pulse that does not end, this file
//! ensures it.
//!
//! ```text
//!  trig  __/10us\______________________________________
//!  echo  ___________________/ flight there and back \__     (38 ms if nothing comes back)
//!                   ~450 us
//! ```
//!
//! The difficulty is that silence has several causes. Without an echo, the data sheet's module lowers the
//! line after 38 ms, others after 200 ms, some never. The rising edge distinguishes open space from a dead
//! sensor: only a working module that received *this* trigger can produce it. The cases are:
//!
//! - The line rises after the trigger and does not fall for 40 ms: the module listened for longer than an
//!   echo from 4 m takes. Nothing is within range: [`FARTHEST`].
//! - The line is high when the next ping is due: the module is still busy with the last ping. `Busy`: there
//!   is no reading, so the last one ages.
//! - The line is high for 250 ms, longer than with any module that ends its pulse by itself: the line is
//!   stuck, or the module never ends its pulse; the two cannot be told apart. `Held`: the sensor counts as
//!   lost.
//! - The line does not rise, or an edge is missing, doubled or early: the sensor is dead or not credible. It
//!   counts as lost, never as free space.
//!
//! So a stuck line can never look like free space, because it does not rise. A module that never ends its
//! pulse counts as lost in open space until an echo lowers its line. It is triggered once more after the time
//! of two pings, and then every quarter of a second, but not more often: a module that restarts its pulse at
//! each trigger would never end it. The falling edge after such a trigger is not a measurement (it may be the
//! end of the old pulse): it only frees the line for the next ping. A deaf receiver looks like open space
//! with every module; no edge reveals it.

use super::DeviceFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Instant, Span};
use crate::base::units::Metres;
use crate::hardware::bus::{Edge, Gpio};

/// Speed of sound at 20 degrees Celsius, m/s. It grows by 0.6 m/s per degree: from 0 to 40 degrees that is
/// +-3.5 %, one centimetre at the distance where a robot has to stop. The vehicle does not measure the air
/// temperature, so a parameter would only be a guess.
pub const SOUND_M_PER_S: f64 = 343.3;
/// The shortest range that the data sheet specifies.
pub const NEAREST: Metres = Metres(0.02);
/// The longest range, which is returned when nothing is within range.
pub const FARTHEST: Metres = Metres(4.0);

/// Length of the trigger pulse; the data sheet requires at least 10 us.
const TRIGGER: Span = Span::from_micros(10);
/// From the trigger to the rising edge, a module takes about 0.45 ms (eight cycles of 40 kHz and its own
/// processor). A module that takes ten times as long counts as absent.
const RISE_WITHIN: Span = Span::from_micros(4_500);
/// The module ends the pulse by itself after 38 ms; 2 ms are added for modules with a slow clock.
const FALL_WITHIN: Span = Span::from_millis(40);
/// Longest pulse of a module that ends its pulse by itself (200 ms), plus a quarter for the error of its
/// clock.
const LONGEST_HOLD: Span = Span::from_millis(250);
/// Minimum time from one ping to the next, so that the first has faded (data sheet).
const REST: Span = Span::from_millis(60);
/// Maximum number of old edges dropped before a ping; a line with more of them carries no echo.
const STALE_EDGES: usize = 64;

/// One module.
#[derive(Clone, Copy, Debug)]
pub struct HcSr04 {
    trig: Line,
    echo: Line,
    /// Since when the line has been high without an echo.
    held: Option<Instant>,
    /// When to trigger again while the line is still high.
    again: Instant,
    /// When the next ping may be sent after such a trigger.
    rested: Instant,
}

impl HcSr04 {
    /// The module on these lines.
    pub fn new(trig: Line, echo: Line) -> HcSr04 {
        HcSr04 { trig, echo, held: None, again: Instant::ZERO, rested: Instant::ZERO }
    }

    /// Pings and waits for the echo, at most 45 ms: returns the distance of the nearest object, or
    /// [`FARTHEST`] if none is within range. After [`DeviceFault::Busy`], which is not a result, try again
    /// soon.
    pub fn measure(&mut self, gpio: &mut dyn Gpio, clock: &dyn Clock) -> Result<Metres, DeviceFault> {
        self.drop_stale_edges(gpio)?;
        if gpio.get(self.echo).map_err(self.fault(self.echo))? {
            // Still busy with the last ping, or the wire is stuck: edges now would not belong to this ping.
            return Err(self.wait_out(gpio, clock)?);
        }
        self.held = None;
        if clock.now() < self.rested {
            return Err(DeviceFault::Busy { line: self.echo });
        }
        let triggered = self.trigger(gpio, clock)?;
        let rise = self.await_rise(triggered, gpio, clock)?;
        match self.await_fall(rise, gpio, clock)? {
            Some(fall) => self.range(fall.since(rise)),
            None => {
                (self.held, self.again) = (Some(rise), triggered + REST.times(2));
                Ok(FARTHEST)
            }
        }
    }

    /// The line is high although it should be idle: triggers the module anyway when it is time to do so.
    /// Returns the fault that applies, which depends on how long the line has been high.
    fn wait_out(&mut self, gpio: &mut dyn Gpio, clock: &dyn Clock) -> Result<DeviceFault, DeviceFault> {
        let now = clock.now();
        let since = *self.held.get_or_insert_with(|| {
            self.again = now + REST; // high before the first ping: another program may have pinged
            now
        });
        if now >= self.again {
            self.trigger(gpio, clock)?;
            (self.again, self.rested) = (now + LONGEST_HOLD, now + REST);
        }
        let line = self.echo;
        Ok(if now.since(since) < LONGEST_HOLD {
            DeviceFault::Busy { line }
        } else {
            DeviceFault::Held { line }
        })
    }

    fn drop_stale_edges(&self, gpio: &mut dyn Gpio) -> Result<(), DeviceFault> {
        for _ in 0..STALE_EDGES {
            if gpio.next_edge(Span::ZERO).map_err(self.fault(self.echo))?.is_none() {
                return Ok(());
            }
        }
        Err(DeviceFault::PulseTooShort { line: self.echo })
    }

    /// Sends the trigger pulse; returns its start time.
    fn trigger(&self, gpio: &mut dyn Gpio, clock: &dyn Clock) -> Result<Instant, DeviceFault> {
        let began = clock.now();
        gpio.set(self.trig, true).map_err(self.fault(self.trig))?;
        clock.sleep_until(began + TRIGGER);
        gpio.set(self.trig, false).map_err(self.fault(self.trig))?;
        Ok(began)
    }

    fn await_rise(
        &self,
        triggered: Instant,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<Instant, DeviceFault> {
        match self.next_echo_edge(triggered, clock.now() + RISE_WITHIN, gpio, clock)? {
            Some(Edge { high: true, stamp, .. }) => Ok(stamp),
            // A falling edge first: the rising edge was lost, so the length is unknown.
            Some(_) | None => Err(DeviceFault::EdgeMissing { line: self.echo }),
        }
    }

    /// When the echo returned; `None`: no echo, and the module is still listening or signals that there was
    /// none.
    fn await_fall(
        &self,
        rise: Instant,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<Option<Instant>, DeviceFault> {
        match self.next_echo_edge(rise, rise + FALL_WITHIN, gpio, clock)? {
            Some(Edge { high: false, stamp, .. }) => Ok(Some(stamp)),
            // A second rising edge: the falling edge in between was lost.
            Some(_) => Err(DeviceFault::EdgeMissing { line: self.echo }),
            // High: no echo returned, and the module holds its pulse.
            None if gpio.get(self.echo).map_err(self.fault(self.echo))? => Ok(None),
            // Low without an edge: the echo returned and its edge was lost. The object may be near.
            None => Err(DeviceFault::EdgeMissing { line: self.echo }),
        }
    }

    /// The next edge of the echo line that is not older than `after`; waits until `until`.
    fn next_echo_edge(
        &self,
        after: Instant,
        until: Instant,
        gpio: &mut dyn Gpio,
        clock: &dyn Clock,
    ) -> Result<Option<Edge>, DeviceFault> {
        loop {
            let wait = until.since(clock.now());
            match gpio.next_edge(wait).map_err(self.fault(self.echo))? {
                Some(edge) if edge.line == self.echo && edge.stamp >= after => return Ok(Some(edge)),
                Some(_) if wait > Span::ZERO => {} // an edge of another line or of an earlier ping
                _ => return Ok(None),
            }
        }
    }

    fn range(&self, flight: Span) -> Result<Metres, DeviceFault> {
        let metres = flight.as_secs_f64() * SOUND_M_PER_S / 2.0;
        if metres < f64::from(NEAREST.0) {
            return Err(DeviceFault::PulseTooShort { line: self.echo });
        }
        Ok(Metres((metres as f32).min(FARTHEST.0)))
    }

    fn fault(&self, line: Line) -> impl Fn(crate::base::fault::BusFault) -> DeviceFault + use<> {
        move |fault| DeviceFault::Line { line, fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::FakeGpio;
    use std::sync::Arc;

    const TRIG: Line = Line(27);
    const ECHO: Line = Line(22);

    /// Pings at time zero; `edges` are (line, level, microseconds).
    fn ping(edges: &[(Line, bool, u64)]) -> (Result<Metres, DeviceFault>, u64, FakeGpio) {
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone());
        for &(line, high, us) in edges {
            gpio = gpio.edge(line, high, Instant::ZERO + Span::from_micros(us));
        }
        let range = HcSr04::new(TRIG, ECHO).measure(&mut gpio, clock.as_ref());
        (range, clock.now().as_nanos() / 1000, gpio)
    }

    fn metres(us: u64) -> f32 {
        (us as f64 * 1e-6 * 343.3 / 2.0) as f32
    }

    #[test]
    fn the_trigger_is_ten_microseconds_long() {
        let (_, _, gpio) = ping(&[(ECHO, true, 450), (ECHO, false, 1450)]);
        let sets: Vec<_> = gpio.sets.iter().map(|set| (set.line, set.high, set.at.as_nanos())).collect();
        assert_eq!(sets, [(TRIG, true, 0), (TRIG, false, 10_000)]);
    }

    #[test]
    fn range_is_half_the_distance_sound_travels() {
        // 58 us per centimetre, as the data sheet rounds it: 5800 us are a metre within 0.5 %.
        let (range, end, _) = ping(&[(ECHO, true, 450), (ECHO, false, 450 + 5800)]);
        assert_eq!(range, Ok(Metres(metres(5800))));
        assert!((range.unwrap().0 - 1.0).abs() < 0.005);
        assert_eq!(end, 6250);
    }

    #[test]
    fn no_echo_within_range_reads_as_the_far_limit() {
        let timed_out = ping(&[(ECHO, true, 450), (ECHO, false, 38_450)]);
        assert_eq!(timed_out.0, Ok(FARTHEST));
        let held_high = ping(&[(ECHO, true, 450), (ECHO, false, 200_000)]);
        assert_eq!((held_high.0, held_high.1), (Ok(FARTHEST), 40_450));
    }

    #[test]
    fn a_silent_module_is_a_fault_and_costs_little() {
        let (range, end, _) = ping(&[]);
        assert_eq!(range, Err(DeviceFault::EdgeMissing { line: ECHO }));
        assert_eq!(end, 4510);
    }

    #[test]
    fn lost_and_double_edges_are_faults_not_free_space() {
        let missing = Err(DeviceFault::EdgeMissing { line: ECHO });
        assert_eq!(ping(&[(ECHO, false, 3000)]).0, missing); // the rising edge is lost
        assert_eq!(ping(&[(ECHO, true, 450), (ECHO, true, 900), (ECHO, false, 2000)]).0, missing);
        // The falling edge is lost: at the end of the wait the line is low.
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone()).edge(ECHO, true, Instant::ZERO + Span::from_micros(450));
        struct Lossy<'a>(&'a mut FakeGpio);
        impl Gpio for Lossy<'_> {
            fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
                self.0.set(line, high)
            }
            fn get(&mut self, _: Line) -> Result<bool, BusFault> {
                Ok(false)
            }
            fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
                self.0.next_edge(wait)
            }
        }
        let range = HcSr04::new(TRIG, ECHO).measure(&mut Lossy(&mut gpio), clock.as_ref());
        assert_eq!(range, missing);
    }

    #[test]
    fn a_pulse_shorter_than_two_centimetres_is_refused() {
        assert_eq!(
            ping(&[(ECHO, true, 450), (ECHO, false, 450 + 116)]).0,
            Err(DeviceFault::PulseTooShort { line: ECHO })
        );
        assert_eq!(ping(&[(ECHO, true, 450), (ECHO, false, 450 + 117)]).0, Ok(Metres(metres(117))));
    }

    #[test]
    fn edges_of_other_lines_and_of_earlier_pings_do_not_count() {
        let other = Line(9);
        let edges = [
            (ECHO, false, 0), // left over from an earlier ping
            (other, true, 100),
            (ECHO, true, 450),
            (other, false, 700),
            (ECHO, false, 2450),
        ];
        assert_eq!(ping(&edges).0, Ok(Metres(metres(2000))));
    }

    /// The answers at these times (ms), and when the driver triggered the module (ms).
    fn looks(edges: &[(bool, u64)], high: bool, at: &[u64]) -> (Vec<Result<Metres, DeviceFault>>, Vec<u64>) {
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone()).level(ECHO, high);
        for &(high, us) in edges {
            gpio = gpio.edge(ECHO, high, Instant::ZERO + Span::from_micros(us));
        }
        let mut module = HcSr04::new(TRIG, ECHO);
        let answers = at.iter().map(|&ms| {
            clock.sleep_until(Instant::ZERO + Span::from_millis(ms));
            module.measure(&mut gpio, clock.as_ref())
        });
        let answers = answers.collect();
        let triggers = gpio.sets.iter().filter(|set| set.high).map(|set| set.at.as_nanos() / 1_000_000);
        (answers, triggers.collect())
    }

    const BUSY: Result<Metres, DeviceFault> = Err(DeviceFault::Busy { line: ECHO });
    const HELD: Result<Metres, DeviceFault> = Err(DeviceFault::Held { line: ECHO });

    #[test]
    fn a_stuck_line_is_a_fault_not_free_space() {
        let at: Vec<u64> = (0..16).map(|turn| 60 * turn).collect();
        let (answers, triggers) = looks(&[], true, &at);
        assert_eq!(answers[..5], [BUSY; 5], "another program's ping may still be in progress");
        assert_eq!(answers[5..], [HELD; 11]);
        assert_eq!(triggers, [60, 360, 660], "an echo may end the pulse of a working module");
    }

    #[test]
    fn a_pulse_of_200_ms_is_waited_out() {
        // Nothing within range; the line falls after 200 ms; then there is something at one metre.
        let edges = [(true, 450), (false, 200_450), (true, 205_460), (false, 211_260)];
        let (answers, triggers) = looks(&edges, false, &[0, 60, 120, 180, 200, 205]);
        assert_eq!(answers, [Ok(FARTHEST), BUSY, BUSY, BUSY, BUSY, Ok(Metres(metres(5_800)))]);
        assert_eq!(triggers, [0, 120, 205], "a second time during the pulse, then after its end");
    }

    #[test]
    fn end_of_a_pulse_is_never_the_echo_of_a_second_trigger() {
        // 5 ms after the trigger at 120 ms, the old pulse ends; taken for an echo, this would be 0.86 m.
        let edges = [(true, 450), (false, 125_000), (true, 180_460), (false, 182_460)];
        let (answers, triggers) = looks(&edges, false, &[0, 60, 120, 125, 175, 180]);
        assert_eq!(answers, [Ok(FARTHEST), BUSY, BUSY, BUSY, BUSY, Ok(Metres(metres(2_000)))]);
        assert_eq!(triggers, [0, 120, 180], "the sound of the second trigger must fade first");
    }

    #[test]
    fn a_chattering_line_is_not_an_echo() {
        let edges: Vec<(bool, u64)> = (0..200).map(|nth| (nth % 2 == 0, nth)).collect();
        let (answers, triggers) = looks(&edges, false, &[1]);
        assert_eq!((answers, triggers), (vec![Err(DeviceFault::PulseTooShort { line: ECHO })], vec![]));
    }
}
