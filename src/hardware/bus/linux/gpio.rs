//! GPIO lines through the character device: one request per owner and chip; the kernel stamps the edges.
//!
//! The kernel releases a line when its owner dies; whether the line then floats depends on the pin
//! controller. Kernels of Raspberry Pi OS keep driving it: `persist_gpio_outputs` is true there
//! (raspberrypi/linux, `rp1_pmx_free` in pinctrl-rp1.c and the same in pinctrl-bcm2835.c), unless config.txt
//! has `dtparam=strict_gpiod`. Mainline Linux has had the parameter since 6.10, and it is false there. Other
//! kernels make the line an input or return it to its special function. [`super::Survey`] reports which of
//! these the kernel does, and [`line_state`] the state of a line.
//!
//! Levels are physical: this module does not handle active-low lines.

use super::chips::{Chips, not_opened, offset_of};
use super::errors::{error, fault, refused};
use super::pi::Registers;
use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Instant, MonotonicClock, Span};
use crate::hardware::bus::{Bias, Edge, Gpio, LineState, LineUse, OpenError, Usage};
use gpiocdev::line::{Direction, EdgeDetection, EdgeKind, Value};
use gpiocdev::{Chip, Request};
use rppal::gpio::OutputPin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most chips on which one owner may hold lines: a Jetson has two, an expander would be a third.
const MAX_CHIPS: usize = 4;
/// Edges that the kernel buffers for an owner that reads late: enough for 100 ms of a wheel encoder with 2500
/// edges a second; an echo has two edges in 60 ms. The kernel allows 1024.
const KERNEL_EDGES: u32 = 256;
/// Edges per read.
const READ_EDGES: usize = 16;
/// Size of an edge event in version 2 of the kernel's interface (`struct gpio_v2_line_event`, 48 bytes), in
/// words of 8 bytes.
const EDGE_WORDS: usize = 6;

/// How a line is requested from the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Want {
    /// With the usage that a worker requested.
    As(Usage),
    /// Pulled low or released, never driven high; starts released. Reads return the level on the wire.
    OpenDrain,
}

/// A requested line, and where it was found.
struct Wanted {
    line: Line,
    offset: u32,
    want: Want,
}

/// The request to one chip.
struct Group {
    path: PathBuf,
    label: String,
    lines: Vec<Wanted>,
}

struct Held {
    line: Line,
    chip: usize,
    offset: u32,
    register: Option<OutputPin>,
}

/// The lines of one owner on one chip.
struct OnChip {
    request: Request,
    watched: bool,
    edges: [u64; EDGE_WORDS * READ_EDGES],
    /// Words of `edges` that are already taken, and words that are filled.
    taken: usize,
    filled: usize,
    /// Sequence number of the last edge taken from this request; the kernel counts from 1.
    last: u32,
}

/// The lines of one owner.
pub(super) struct LinuxGpio {
    lines: Vec<Held>,
    chips: Vec<OnChip>,
    overruns: Arc<AtomicU64>,
}

impl LinuxGpio {
    /// Requests the lines of `wants` as consumer `ganglion-OWNER`: all lines of a chip or none. With
    /// `registers`, plain outputs are set through them where possible.
    pub(super) fn open(
        chips: &Chips,
        owner: &str,
        wants: &[(Line, Want)],
        overruns: Arc<AtomicU64>,
        registers: Option<&Registers>,
    ) -> Result<LinuxGpio, OpenError> {
        let groups = grouped(chips, wants)?;
        if groups.len() > MAX_CHIPS {
            let why = format!("they are on {} chips; at most {MAX_CHIPS} are supported", groups.len());
            return Err(error(format!("lines of {owner}"), why, "wire them to fewer chips"));
        }
        let mut gpio = LinuxGpio { lines: Vec::new(), chips: Vec::new(), overruns };
        for group in groups {
            let request = request(&group, owner).map_err(|failure| busy(chips, &group, &failure))?;
            let watched =
                group.lines.iter().any(|line| matches!(line.want, Want::As(usage) if usage.has_edges()));
            for Wanted { line, offset, want } in group.lines {
                let output = matches!(want, Want::As(Usage::Output { .. }));
                let register = registers.filter(|_| output);
                let register = register.and_then(|mapped| mapped.output(&group.label, offset));
                gpio.lines.push(Held { line, chip: gpio.chips.len(), offset, register });
            }
            let edges = [0; EDGE_WORDS * READ_EDGES];
            gpio.chips.push(OnChip { request, watched, edges, taken: 0, filled: 0, last: 0 });
        }
        Ok(gpio)
    }

    fn held(&mut self, line: Line) -> Result<(&mut Held, &Request), BusFault> {
        let held = self.lines.iter_mut().find(|held| held.line == line).ok_or(BusFault::Absent)?;
        let request = &self.chips[held.chip].request;
        Ok((held, request))
    }

    /// The line at `offset` of a chip.
    fn line_at(&self, chip: usize, offset: u32) -> Option<Line> {
        self.lines.iter().find(|held| held.chip == chip && held.offset == offset).map(|held| held.line)
    }

    /// Reads pending edges from the chips whose buffers are empty, and waits at most `wait` for the first. A
    /// signal may cut the wait short: the caller checks the time.
    fn fetch(&mut self, wait: Span) -> Result<(), BusFault> {
        let mut places: heapless::Vec<usize, MAX_CHIPS> = heapless::Vec::new();
        let mut ready: heapless::Vec<bool, MAX_CHIPS> = heapless::Vec::new();
        {
            let mut files: heapless::Vec<PollFd<'_>, MAX_CHIPS> = heapless::Vec::new();
            for (place, chip) in self.chips.iter().enumerate().filter(|(_, chip)| chip.wants_more()) {
                // Always fits: there are at most MAX_CHIPS chips.
                let _ = files.push(PollFd::from_borrowed_fd(chip.request.as_fd(), PollFlags::IN));
                let _ = places.push(place);
            }
            match poll(&mut files, Some(&timespec(wait))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(failure) => return Err(fault(failure.raw_os_error())),
            }
            // A chip that was removed sets other flags; the read then returns the reason.
            ready.extend(files.iter().map(|file| !file.revents().is_empty()));
        }
        for (&place, _) in places.iter().zip(&ready).filter(|(_, ready)| **ready) {
            self.chips[place].read()?;
        }
        Ok(())
    }

    /// Takes the earliest of the edges that have been read.
    fn earliest(&mut self) -> Result<Option<Edge>, BusFault> {
        let mut first: Option<(usize, u64)> = None;
        for (place, chip) in self.chips.iter().enumerate() {
            let stamp = chip.next()?.map(|edge| edge.timestamp_ns);
            first =
                stamp.map(|stamp| (place, stamp)).into_iter().chain(first).min_by_key(|(_, stamp)| *stamp);
        }
        let Some((place, _)) = first else { return Ok(None) };
        let Some((edge, missed)) = self.chips[place].take()? else { return Ok(None) };
        self.overruns.fetch_add(u64::from(missed), Ordering::Relaxed);
        let line = self.line_at(place, edge.offset).ok_or(BusFault::Io)?;
        let high = edge.kind == EdgeKind::Rising;
        Ok(Some(Edge { line, high, stamp: Instant::from_nanos(edge.timestamp_ns) }))
    }
}

impl Gpio for LinuxGpio {
    fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
        let (held, request) = self.held(line)?;
        if let Some(pin) = &mut held.register {
            pin.write(high.into());
            return Ok(());
        }
        let value = if high { Value::Active } else { Value::Inactive };
        request.set_value(held.offset, value).map_err(|failure| kind(&failure))
    }

    fn get(&mut self, line: Line) -> Result<bool, BusFault> {
        let (held, request) = self.held(line)?;
        request.value(held.offset).map(|value| value == Value::Active).map_err(|failure| kind(&failure))
    }

    fn next_edge(&mut self, wait: Span) -> Result<Option<Edge>, BusFault> {
        let clock = MonotonicClock;
        let end = clock.now() + wait;
        loop {
            // An edge that was already read must not wait for a chip that has no edge.
            let some_here = self.chips.iter().any(|chip| chip.taken < chip.filled);
            if !some_here || self.chips.iter().any(OnChip::wants_more) {
                self.fetch(if some_here { Span::ZERO } else { end.since(clock.now()) })?;
            }
            match self.earliest()? {
                None if clock.now() < end => {}
                edge => return Ok(edge),
            }
        }
    }
}

impl OnChip {
    fn wants_more(&self) -> bool {
        self.watched && self.taken == self.filled
    }

    /// Reads pending edges once. Must only be called if some are pending; otherwise it would block.
    fn read(&mut self) -> Result<(), BusFault> {
        (self.taken, self.filled) = (0, 0);
        // Not read_edge_event: it takes up to eight edges from the kernel but returns only the first.
        let words =
            self.request.read_edge_events_into_slice(&mut self.edges).map_err(|failure| kind(&failure))?;
        self.filled = words - words % EDGE_WORDS;
        Ok(())
    }

    fn next(&self) -> Result<Option<gpiocdev::line::EdgeEvent>, BusFault> {
        let Some(words) = self.edges[..self.filled].get(self.taken..self.taken + EDGE_WORDS) else {
            return Ok(None);
        };
        self.request.edge_event_from_slice(words).map(Some).map_err(|failure| kind(&failure))
    }

    /// The next edge, and how many edges the kernel dropped before it.
    fn take(&mut self) -> Result<Option<(gpiocdev::line::EdgeEvent, u32)>, BusFault> {
        let edge = self.next()?;
        Ok(edge.map(|edge| {
            self.taken += EDGE_WORDS;
            let missed = missed(self.last, edge.seqno);
            self.last = edge.seqno;
            (edge, missed)
        }))
    }
}

/// How many edges were dropped between edges number `last` and `now`; the numbers wrap around.
fn missed(last: u32, now: u32) -> u32 {
    now.wrapping_sub(last).wrapping_sub(1)
}

fn timespec(span: Span) -> Timespec {
    let ns = span.as_nanos();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// The lines grouped by chip, in the order in which chips appear.
fn grouped(chips: &Chips, wants: &[(Line, Want)]) -> Result<Vec<Group>, OpenError> {
    let mut groups: Vec<Group> = Vec::new();
    for &(line, want) in wants {
        let (chip, offset) = chips.locate(line, offset_of)?;
        let wanted = Wanted { line, offset, want };
        match groups.iter_mut().find(|group| group.path == chip.path) {
            Some(group) => group.lines.push(wanted),
            None => {
                let (path, label) = (chip.path.clone(), chip.label.clone());
                groups.push(Group { path, label, lines: vec![wanted] });
            }
        }
    }
    Ok(groups)
}

/// One request for all lines of a chip. It carries the outputs' initial levels, so that no output ever has
/// another level.
fn request(group: &Group, owner: &str) -> gpiocdev::Result<Request> {
    let mut builder = Request::builder();
    builder.on_chip(&group.path).with_consumer(consumer(owner)).with_kernel_event_buffer_size(KERNEL_EDGES);
    for &Wanted { offset, want, .. } in &group.lines {
        let line = builder.with_line(offset);
        match want {
            Want::OpenDrain => line.as_output(Value::Active).with_drive(gpiocdev::line::Drive::OpenDrain),
            Want::As(Usage::Output { high: true }) => line.as_output(Value::Active),
            Want::As(Usage::Output { high: false }) => line.as_output(Value::Inactive),
            Want::As(Usage::Input { bias }) => line.as_input().with_bias(pull(bias)),
            Want::As(Usage::Watched { bias, debounce }) => {
                line.as_input().with_bias(pull(bias)).with_edge_detection(EdgeDetection::BothEdges);
                if debounce > Span::ZERO {
                    line.with_debounce_period(Duration::from_nanos(debounce.as_nanos()));
                }
                line
            }
            Want::As(Usage::Rising { bias }) => {
                line.as_input().with_bias(pull(bias)).with_edge_detection(EdgeDetection::RisingEdge)
            }
        };
    }
    builder.request()
}

/// The label under which `gpioinfo` shows the owner; the kernel keeps 31 bytes of it.
fn consumer(owner: &str) -> String {
    format!("ganglion-{owner}").chars().take(31).collect()
}

fn pull(bias: Bias) -> Option<gpiocdev::line::Bias> {
    match bias {
        Bias::AsIs => None,
        Bias::Up => Some(gpiocdev::line::Bias::PullUp),
        Bias::Down => Some(gpiocdev::line::Bias::PullDown),
    }
}

/// The error number in a gpiocdev error, if there is one.
pub(super) fn number(failure: &gpiocdev::Error) -> Option<i32> {
    match failure {
        gpiocdev::Error::Os(number) | gpiocdev::Error::Uapi(_, gpiocdev_uapi::Error::Os(number)) => {
            Some(number.0)
        }
        _ => None,
    }
}

fn kind(failure: &gpiocdev::Error) -> BusFault {
    number(failure).map_or(BusFault::Io, fault)
}

/// Why a request failed: if a line is in use, says which process or driver has it.
fn busy(chips: &Chips, group: &Group, failure: &gpiocdev::Error) -> OpenError {
    let chip = group.path.display().to_string();
    match number(failure) {
        Some(libc::EBUSY) => match holder(group) {
            Some((line, consumer)) => taken(&format!("{} of {chip}", chips.spoken(line)), &consumer),
            None => error(chip, "one of its lines is in use", "inspect it with 'gpioinfo'"),
        },
        _ => not_opened(&chip, failure),
    }
}

/// The first line of the group that is already in use, and its consumer.
fn holder(group: &Group) -> Option<(Line, String)> {
    let chip = Chip::from_path(&group.path).ok()?;
    group.lines.iter().find_map(|wanted| {
        let info = chip.line_info(wanted.offset).ok().filter(|info| info.used)?;
        Some((wanted.line, info.consumer))
    })
}

fn taken(what: &str, consumer: &str) -> OpenError {
    let consumer = if consumer.is_empty() { "the kernel" } else { consumer };
    let fix = match consumer.strip_prefix("ganglion-") {
        // The guard is designed to outlive the runtime.
        Some("guard") => {
            "stop the guard too: 'systemctl stop ganglion ganglion-guard', or end 'ganglion guard'"
        }
        Some(_) => "stop the other ganglion: 'ganglion stop', or 'systemctl stop ganglion'",
        None => {
            "stop that program or driver (an overlay in config.txt?), or use another line in the board file"
        }
    };
    error(what, format!("{consumer} is using it"), fix)
}

/// The state of `line`. A free line is requested "as is": this leaves its direction and level unchanged and
/// makes the kernel ask the pin controller for the direction, because the direction that the kernel remembers
/// from an earlier owner may be wrong. The level of an input means nothing: an RP1 keeps a pin's receiver off
/// until the pin is requested as a line.
pub(super) fn line_state(chips: &Chips, line: Line) -> Result<LineState, OpenError> {
    let (place, offset) = chips.locate(line, offset_of)?;
    let (path, what) = (&place.path, format!("{} of {}", chips.spoken(line), place.path.display()));
    let failed = |failure: &gpiocdev::Error| match number(failure) {
        Some(number) => {
            refused(&what, &io::Error::from_raw_os_error(number), "inspect it with 'gpioinfo'", "gpio")
        }
        None => error(&what, failure.to_string(), "inspect it with 'gpioinfo'"),
    };
    let info = || Chip::from_path(path).and_then(|chip| chip.line_info(offset));
    let before = info().map_err(|failure| failed(&failure))?;
    if before.used {
        return Ok(LineState::Taken(taken(&what, &before.consumer)));
    }
    let request =
        Request::builder().on_chip(path).with_consumer(consumer("look")).with_line(offset).as_is().request();
    let request = match request {
        Ok(request) => request,
        // Another process took the line in the meantime.
        Err(failure) if number(&failure) == Some(libc::EBUSY) => {
            let holder = info().map_or(String::new(), |info| info.consumer);
            return Ok(LineState::Taken(taken(&what, &holder)));
        }
        Err(failure) => return Err(failed(&failure)),
    };
    if info().map_err(|failure| failed(&failure))?.direction != Direction::Output {
        return Ok(LineState::Floats);
    }
    let level = request.value(offset).map_err(|failure| failed(&failure))?;
    Ok(LineState::Kept { high: level == Value::Active })
}

/// `lines` in the form that [`LinuxGpio::open`] takes.
pub(super) fn wants(lines: &[LineUse]) -> Vec<(Line, Want)> {
    lines.iter().map(|line| (line.line, Want::As(line.usage))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_the_kernels_count_are_lost_edges() {
        assert_eq!((missed(0, 1), missed(1, 2), missed(1, 5)), (0, 0, 3));
        assert_eq!(missed(u32::MAX, 0), 0, "the count wraps around");
        assert_eq!(missed(u32::MAX - 1, 1), 2);
    }

    #[test]
    fn the_kernels_edge_event_has_the_expected_size() {
        assert_eq!(size_of::<gpiocdev_uapi::v2::LineEdgeEvent>(), EDGE_WORDS * 8);
    }

    #[test]
    fn a_wait_lasts_as_long_as_asked() {
        let spec = timespec(Span::from_millis(2_250));
        assert_eq!((spec.tv_sec, spec.tv_nsec), (2, 250_000_000));
    }

    #[test]
    fn a_busy_line_names_its_holder() {
        let other = taken("GPIO line 5 of /dev/gpiochip0", "spi0 CS0");
        assert_eq!(other.to_string(), "GPIO line 5 of /dev/gpiochip0: spi0 CS0 is using it");
        assert!(taken("x", "ganglion-motors").fix.contains("the other ganglion"));
        // Stopping only the runtime would leave the guard running and holding the line.
        let guard = consumer("guard");
        assert!(taken("x", &guard).fix.contains("'systemctl stop ganglion ganglion-guard'"), "{guard}");
        assert_eq!(taken("x", "").why, "the kernel is using it");
    }

    #[test]
    fn the_consumer_label_fits_the_kernels_limit() {
        assert_eq!(consumer("edges"), "ganglion-edges");
        assert_eq!(consumer("a-name-that-is-longer-than-it-may-be").len(), 31);
    }

    #[test]
    fn errors_of_the_crate_keep_their_number() {
        let failure = gpiocdev::Error::from(io::Error::from_raw_os_error(libc::EBUSY));
        assert_eq!(number(&failure), Some(libc::EBUSY));
        assert_eq!(kind(&failure), BusFault::Unsupported);
        assert_eq!(kind(&gpiocdev::Error::NoGpioChips()), BusFault::Io);
    }

    #[test]
    fn an_owner_without_lines_waits_and_sees_no_edges() {
        let mut none = LinuxGpio { lines: Vec::new(), chips: Vec::new(), overruns: Arc::default() };
        let before = MonotonicClock.now();
        assert_eq!(none.next_edge(Span::from_millis(2)), Ok(None));
        assert!(MonotonicClock.now().since(before) >= Span::from_millis(2));
        assert_eq!(none.set(Line(4), true), Err(BusFault::Absent));
        assert_eq!(none.get(Line(4)), Err(BusFault::Absent));
    }
}
