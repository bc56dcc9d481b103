//! `go`: sends the running robot somewhere, starts a behaviour, makes it stand still, or lets its field drive
//! again.

use super::arguments;
use super::control::{Whom, unreachable};
use super::exit::Failure;
use super::output;
use crate::base::plan::Board;
use crate::base::time::Span;
use crate::decision::motion::OdometryPose;
use crate::decision::motion::agreement::is_opposite;
use crate::field::navigate::goals::{FEWEST_OF_PATROL, Place, Route, Task};
use crate::field::navigate::navigator::can_go;
use crate::runtime::control::{self, Ask, GoalStatus, Reply, Status};
use std::thread;
use std::time::{Duration, Instant};

/// How often `--wait` asks for the status. A user does not notice a fifth of a second, and five requests per
/// second are a negligible load for the robot.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `go`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion go 2,1                2 m ahead and 1 m to the left of where the robot started
  ganglion go '2,1;2,-1;home'    a route; the robot stops at the last place
  ganglion go '2,1;2,-1' --repeat    patrol these places until another order arrives
  ganglion go patrol             patrol the places in [patrol] of its board file
  ganglion go wall               just short of where its map has the wall (see 'ganglion status')
  ganglion go 2,1 --wait 60s     wait until it has arrived or given up
  ganglion go follow-line        a behaviour of its board file (docs/behaviours.md)
  ganglion go stop               stand still, but stay armed
  ganglion go wander             let its field drive again, as before the first order

The robot must be armed. A new order replaces the last one; disarming cancels it. Places are
measured by dead reckoning from the start, which drifts.

Exit code 75: refused for now, or with --wait: not there in time, replaced or cancelled; 69: the
robot has given up, or cannot follow the order.")]
pub struct Args {
    /// X,Y in metres ahead and to the left of the start, 'home', or a name from its map; several with ';'
    /// between them; or a behaviour, 'patrol', 'stop' or 'wander'
    #[arg(value_name = "WHERE", allow_hyphen_values = true)]
    goal: String,
    /// Repeat the places until another order arrives; a place that the robot gives up on is left out in that
    /// round
    #[arg(long, conflicts_with = "wait")]
    repeat: bool,
    /// Wait for the robot to arrive or give up, but no longer than this
    #[arg(long, value_name = "TIME", value_parser = arguments::span)]
    wait: Option<Span>,
    #[command(flatten)]
    whom: Whom,
}

/// A route from text: places with `;` between them.
pub fn route(text: &str) -> Result<Route, String> {
    let places: Result<Vec<Place>, String> = text.split(';').map(arguments::place).collect();
    Route::try_from(places?).map_err(|error| error.to_string())
}

/// Refuses a route on a board whose robot cannot go anywhere by itself.
pub fn demand_navigator(board: &Board) -> Result<(), Failure> {
    if can_go(board) {
        return Ok(());
    }
    let name = &board.name;
    Err(Failure::config(format!("board '{name}' has no navigator, so --goal cannot be followed")).fix(
        "state `body` in [motion], and the mounting of each ranging sensor in `beam` (boards/README.md)",
    ))
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let task = task(&args)?;
    let socket = args.whom.socket();
    let reply = control::order(socket, task).map_err(|error| unreachable(socket, &error))?;
    if !reply.done {
        return refuse(&args, &reply);
    }
    let route = matches!(task, Task::Go(_)); // a patrol has no end to wait for
    let status = match args.wait.filter(|_| route) {
        Some(longest) => follow(&args, reply.status, longest)?,
        None => reply.status,
    };
    if args.whom.wants_json() {
        output::json(&status.measured.goal)?;
    } else if let Some(goal) = &status.measured.goal {
        relay!("goal {}", line(goal));
    }
    match status.measured.goal.filter(|goal| args.wait.is_some() && goal.state == "given-up") {
        Some(goal) => Err(Failure::unavailable(format!("the robot has given up: {}", why(&goal)))),
        None => Ok(()),
    }
}

fn refuse(args: &Args, reply: &Reply) -> Result<(), Failure> {
    if args.whom.wants_json() {
        output::json(reply)?;
    }
    let words = format!("the robot does not go: {}", reply.why.join("; "));
    Err(if reply.may_pass { Failure::not_now(words) } else { Failure::unavailable(words) })
}

/// The task that the command line requests.
fn task(args: &Args) -> Result<Task, Failure> {
    match args.goal.as_str() {
        "stop" | "wander" if args.repeat => {
            return Err(Failure::usage("--repeat needs places"));
        }
        "stop" => return Ok(Task::Stand),
        "wander" => return Ok(Task::Wander),
        "patrol" => return boards_patrol(args),
        _ => {}
    }
    let mut status = None;
    let mut places = Vec::new();
    for word in args.goal.split(';').map(str::trim) {
        places.push(match word {
            "home" => [0.0, 0.0],
            "stop" | "wander" | "patrol" => {
                return Err(Failure::usage(format!("'{word}' cannot be part of a route")));
            }
            word if word.contains(',') => arguments::place(word).map_err(Failure::usage)?,
            name => {
                if status.is_none() {
                    let socket = args.whom.socket();
                    let reply = control::ask(socket, Ask::Status);
                    status = Some(reply.map_err(|error| unreachable(socket, &error))?.status);
                }
                let behaviours = status.as_ref().map_or(&[][..], |status| &status.behaviours);
                if behaviours.iter().any(|behaviour| behaviour == name) {
                    return begin(args, status.as_ref().map_or("", |status| &status.board), behaviours);
                }
                status.as_ref().map_or_else(|| Err(nowhere(name, &[])), |status| met(status, name))?
            }
        });
    }
    let route = Route::try_from(places).map_err(Failure::usage)?;
    if args.repeat { patrol(route) } else { Ok(Task::Go(route)) }
}

/// The behaviour that the command line names.
fn begin(args: &Args, board: &str, behaviours: &[String]) -> Result<Task, Failure> {
    let name = args.goal.trim();
    if args.wait.is_some() || args.repeat {
        return Err(Failure::usage(
            "a behaviour has no places and no end, so --repeat and --wait do not apply",
        ));
    }
    if name.contains(';') {
        return Err(Failure::usage("a behaviour cannot be part of a route"));
    }
    behaviour(board, behaviours, name)
}

/// The task to behave as `name`, one of the behaviours of `board`.
pub fn behaviour(board: &str, names: &[String], name: &str) -> Result<Task, Failure> {
    let number = names.iter().position(|known| known == name).and_then(|at| u8::try_from(at).ok());
    number.map(Task::Behave).ok_or_else(|| {
        let fix = match names {
            [] => "state a [[behaviour]] in the board file (docs/behaviours.md)".to_string(),
            names => format!("the board's behaviours are: {}", names.join(", ")),
        };
        Failure::usage(format!("board '{board}' has no behaviour '{name}'")).fix(fix)
    })
}

/// The task to patrol the places of `route`.
pub fn patrol(route: Route) -> Result<Task, Failure> {
    if route.places().len() < FEWEST_OF_PATROL {
        return Err(Failure::usage(format!("--repeat needs at least {FEWEST_OF_PATROL} places")));
    }
    Ok(Task::Patrol(route))
}

/// The patrol in the robot's board file.
fn boards_patrol(args: &Args) -> Result<Task, Failure> {
    if args.wait.is_some() {
        return Err(Failure::usage("a patrol has no end, so --wait cannot wait for it"));
    }
    let socket = args.whom.socket();
    let reply = control::ask_without_map(socket, Ask::Status).map_err(|error| unreachable(socket, &error))?;
    let places = reply.status.patrol;
    if places.is_empty() {
        return Err(Failure::unavailable(format!("board '{}' has no patrol", reply.status.board))
            .fix("state `places` in [patrol] of the board file, or give them with --repeat"));
    }
    patrol(Route::try_from(places).map_err(Failure::unavailable)?)
}

fn nowhere(name: &str, behaviours: &[String]) -> Failure {
    let listed = match behaviours {
        [] => String::new(),
        behaviours => format!("; its behaviours: {}", behaviours.join(", ")),
    };
    Failure::usage(format!(
        "'{name}' is neither a place on this robot's map nor a behaviour of its board{listed}"
    ))
    .fix("give X,Y, 'home', a behaviour, or a name that 'ganglion status' lists under 'map' with a place")
}

/// How far short of a thing the robot stops, metres: it must not drive into a wall, and a body half a metre
/// long needs some room to turn in front of one.
const SHORT_OF_M: f64 = 0.4;

/// A place a little short of where the robot's map says that it met `name`, on the straight line to it. The
/// map keeps its own dead reckoning, which may have begun in an earlier run; so the place is converted by
/// comparing the robot's present position in both.
fn met(status: &Status, name: &str) -> Result<Place, Failure> {
    let nowhere = || nowhere(name, &status.behaviours);
    let map = status.map.as_ref().ok_or_else(nowhere)?;
    let thing = map.things.iter().find(|thing| thing.name == name).ok_or_else(nowhere)?;
    let was_at = thing.was_at.ok_or_else(|| {
        Failure::not_now(format!(
            "the robot has met '{name}' {} times, but has no reliable place for it",
            thing.met
        ))
    })?;
    let goal = status.measured.goal.as_ref().ok_or_else(nowhere)?;
    let by_map = OdometryPose { at: map.at, heading: map.heading_deg.to_radians() };
    let here = OdometryPose { at: goal.at, heading: goal.heading_deg.to_radians() };
    let [ahead, left] = by_map.sees(was_at);
    let metres = ahead.hypot(left);
    let share = if metres > SHORT_OF_M { 1.0 - SHORT_OF_M / metres } else { 0.0 };
    Ok(here.place(share * ahead, share * left))
}

/// Waits until the robot has arrived at the last place or given up. Fails if another order or disarming ends
/// this order, or if the time is up.
fn follow(args: &Args, mut status: Status, longest: Span) -> Result<Status, Failure> {
    let until = Instant::now() + Duration::from_nanos(longest.as_nanos());
    let number = status.measured.goal.as_ref().map_or(0, |goal| goal.order);
    loop {
        let Some(goal) = &status.measured.goal else { return Ok(status) };
        if goal.order != number {
            return Err(Failure::not_now("another order has replaced this one"));
        }
        if goal.goal.is_none() {
            return Err(Failure::not_now(format!("the order was cancelled: the robot is {}", status.line())));
        }
        if goal.state == "given-up" || (goal.state == "arrived" && goal.left == 0) {
            return Ok(status);
        }
        if Instant::now() >= until {
            return Err(Failure::not_now(format!("not there in time: {}", line(goal))));
        }
        thread::sleep(LOOK_EVERY);
        let socket = args.whom.socket();
        let reply = control::ask_without_map(socket, Ask::Status);
        status = reply.map_err(|error| unreachable(socket, &error))?.status;
    }
}

fn why(goal: &GoalStatus) -> &str {
    goal.why.as_deref().unwrap_or("no reason is known")
}

/// The robot's goal, its progress and its position, on one line.
pub fn line(goal: &GoalStatus) -> String {
    let [x, y] = goal.at;
    let doubt = goal.turns_measured.and_then(doubt).map(|doubt| format!("; {doubt}")).unwrap_or_default();
    format!("{}; at ({x:.2}, {y:.2}) m by dead reckoning{doubt}", progress(goal))
}

/// What to say about a gyroscope that measures this share of the commanded turns. It may be right if it
/// measures few of them: a robot that is blocked, or whose wheels slip, does not turn as commanded.
fn doubt(share: f64) -> Option<String> {
    let percent = 100.0 * share;
    match share {
        share if is_opposite(share) => Some(
            "its gyroscope measures the opposite of the commanded turns and is not used: is it upside down, or does \
             the robot turn the wrong way?"
                .into(),
        ),
        share if share < 0.5 => Some(format!(
            "its gyroscope measures only {percent:.0} % of the commanded turns: is its z axis upright, does the robot \
             turn at all?"
        )),
        share if share > 1.5 => Some(format!(
            "its gyroscope measures {percent:.0} % of the commanded turns: are the figures under [motion] right?"
        )),
        _ => None,
    }
}

/// The robot's goal and its progress.
pub fn progress(goal: &GoalStatus) -> String {
    let GoalStatus { goal: place, behaviour, left, state, why, .. } = goal;
    if let Some(name) = behaviour {
        return format!("{name}: {}", why.as_deref().unwrap_or("it drives the robot"));
    }
    let Some([to_x, to_y]) = place else {
        return if state == "standing" { "none: the robot stands by order" } else { "none" }.to_string();
    };
    let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let more = if *left > 0 { format!(", {left} more after it") } else { String::new() };
    let state = state.replace('-', " ");
    format!("({to_x:.2}, {to_y:.2}) m: {state}{why}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::map::{MapStatus, ThingStatus};
    use crate::runtime::control::Sources;

    fn goal() -> GoalStatus {
        GoalStatus {
            order: 1,
            goal: Some([2.0, -1.0]),
            left: 1,
            behaviour: None,
            state: "given-up".into(),
            why: Some("it is stuck".into()),
            at: [1.0, 0.5],
            heading_deg: 0.0,
            turns_measured: None,
        }
    }

    #[test]
    fn routes_are_read_and_mistakes_named() {
        let places: Vec<Place> = route("2,1;-0.5, 3").unwrap().into();
        assert_eq!(places, [[2.0, 1.0], [-0.5, 3.0]]);
        assert!(route("2").unwrap_err().contains("'2' is not a place"));
        assert!(route("1e9,0").unwrap_err().starts_with("place 1 of the route"));
        let many = vec!["1,1"; 17].join(";");
        assert!(route(&many).unwrap_err().contains("found 17"));
    }

    #[test]
    fn a_line_says_where_to_why_not_and_where_it_is() {
        let shown = line(&goal());
        let expected =
            "(2.00, -1.00) m: given up (it is stuck), 1 more after it; at (1.00, 0.50) m by dead reckoning";
        assert_eq!(shown, expected);
        for (share, doubt) in
            [(1.1, None), (0.1, Some("only 10 %")), (-1.0, Some("the opposite of")), (2.0, Some("200 %"))]
        {
            let shown = line(&GoalStatus { turns_measured: Some(share), ..goal() });
            let said = shown.strip_prefix(expected).expect("the same line");
            assert!(doubt.map_or(said.is_empty(), |doubt| said.contains(doubt)), "{share}: {shown}");
        }
    }

    #[test]
    fn a_line_says_that_the_robot_stands_by_order() {
        let idle = GoalStatus { goal: None, left: 0, state: "idle".into(), why: None, ..goal() };
        assert_eq!(progress(&idle), "none");
        let standing = GoalStatus { state: "standing".into(), ..idle };
        assert_eq!(progress(&standing), "none: the robot stands by order");
    }

    #[test]
    fn a_line_names_the_behaviour_and_why_it_does_nothing() {
        let behaviour = Some("follow-line".to_string());
        let behaving = GoalStatus { goal: None, behaviour, state: "behaving".into(), why: None, ..goal() };
        assert_eq!(progress(&behaving), "follow-line: it drives the robot");
        let looking = GoalStatus { why: Some("its sensors show nothing".into()), ..behaving };
        assert_eq!(progress(&looking), "follow-line: its sensors show nothing");
    }

    #[test]
    fn an_unknown_behaviour_is_refused_with_the_known_ones() {
        let names = ["a", "b"].map(str::to_string);
        assert_eq!(behaviour("sim", &names, "b").unwrap(), Task::Behave(1));
        let refused = behaviour("sim", &names, "c").unwrap_err().to_string();
        assert!(refused.contains("board 'sim' has no behaviour 'c'"), "{refused}");
    }

    #[test]
    fn a_name_is_carried_over_from_the_maps_frame() {
        let mut status = Sources::idle().status();
        assert!(met(&status, "wall").is_err());
        status.measured.goal = Some(goal());
        // The map began in another place: it has the robot at (5, 5), turned 90 degrees to the left.
        let thing = ThingStatus { name: "wall".into(), met: 1, was_at: Some([5.0, 7.0]), likeness: 0.9 };
        status.map = Some(MapStatus {
            at: [5.0, 5.0],
            heading_deg: 90.0,
            things: vec![thing],
            ..MapStatus::default()
        });
        let [x, y] = met(&status, "wall").unwrap();
        let expected = 1.0 + 2.0 - SHORT_OF_M;
        assert!((x - expected).abs() < 1e-9 && (y - 0.5).abs() < 1e-9, "the wall is 2 m ahead: {x}, {y}");
        assert!(met(&status, "door").is_err());
        // The robot is already near enough.
        status.map.as_mut().unwrap().at = [5.0, 6.8];
        assert_eq!(met(&status, "wall").unwrap(), [1.0, 0.5]);
    }
}
