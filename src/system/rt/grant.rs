//! Requests what a real-time thread needs from the system, reads back what it got, and reports both.
//!
//! The order is memory, stack, timer slack, core, priority: the slow steps come first, while the thread can
//! still be pre-empted, and the slack before the priority, because the kernel ignores slack for real-time
//! policies. A refusal never stops the sequence: a robot with locked memory and no priority is better off
//! than one with neither. The board decides whether the result is good enough (`strict`), through
//! [`Granted::enough`].
//!
//! None of this runs in a control period.

#![allow(unsafe_code)] // libc's scheduling calls; rustix has safe ones for the rest

use std::fmt;
use std::io;
use std::num::NonZeroU64;

use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CpuSet};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::base::plan::RtPlan;

/// The thread that makes the request; it determines the offset from the board's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The control period.
    Tick,
    /// An I2C bus: above the tick, so that a command goes on the wire as soon as it is handed over.
    Bus,
    /// Edges of GPIO lines: above the tick as well, because the work is short.
    Edges,
    /// Buttons and lines that request a poll: above the buses, because their signals come first.
    Lines,
    /// Values from kernel files: not a real-time thread, because a read may take a while.
    Slow,
    /// The guard, a separate process: above everything that it watches.
    Guard,
    /// Heartbeats to the guard: below the tick, so that a tick that never waits also holds them up, which the
    /// guard notices.
    Heartbeat,
    /// The tether, a separate process: below the tick, with which it may share a core.
    Tether,
    /// The field engine: not a real-time thread; it may compute for as long as it needs.
    Field,
}

impl Role {
    /// The SCHED_FIFO priority of this role if that of the tick is `tick`, clamped to Linux's range, 1..=99.
    /// 0: not a real-time thread; if `tick` is 0, no role is one.
    pub fn priority(self, tick: u8) -> u8 {
        let priority = match self {
            _ if tick == 0 => return 0,
            Role::Tick => tick,
            // 5: room for a watchdog between the bus and the tick.
            Role::Bus | Role::Edges => tick.saturating_add(5),
            // The thread has a few microseconds of work per edge, and stops listening if edges come too fast.
            Role::Lines => tick.saturating_add(6),
            Role::Slow => return 0,
            Role::Guard => tick.saturating_add(8),
            Role::Heartbeat | Role::Tether => tick.saturating_sub(1),
            // None: a CPU engine computes for milliseconds, and one that hangs never waits. Under SCHED_FIFO
            // it would hold up the threaded interrupts of its core (priority 50 by default), and the kernel's
            // throttling of real-time threads would then hit the tick as well.
            Role::Field => return 0,
        };
        priority.clamp(1, 99)
    }
}

/// How the kernel chooses when the thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER: a fair share.
    Other,
    /// SCHED_FIFO: runs at once, until it blocks.
    Fifo,
    /// SCHED_RR: as FIFO, but threads of equal priority take turns.
    RoundRobin,
    /// SCHED_DEADLINE: a reserved share of time.
    Deadline,
    /// SCHED_BATCH, SCHED_IDLE or one that this program does not know.
    Another,
}

/// One request to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SCHED_FIFO at this priority.
    Priority(u8),
    /// To run on this core only, or (field and slow threads) on every core but this one.
    Core(usize),
    /// For a thread of the field: to run on this core only.
    FieldCore(usize),
    /// All memory, present and future, locked.
    Memory,
    /// Timer slack of 1 ns.
    TimerSlack,
}

/// A request that was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request.
    pub what: Request,
    /// The system's reason; 0: the call succeeded but had no effect.
    pub errno: i32,
}

/// At most one refusal of each kind.
pub type Refusals = heapless::Vec<Refusal, 5>;

/// What the calling thread has, read back from the kernel, and what it was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Granted {
    /// The thread's role.
    pub role: Role,
    /// Scheduling policy.
    pub policy: Policy,
    /// Real-time priority, 1 to 99; 0 under a policy that has none.
    pub priority: u8,
    /// The core, if the thread may run on exactly one.
    pub cpu: Option<usize>,
    /// How many cores the thread may run on.
    pub cores: u32,
    /// Whether the process's memory is locked.
    pub memory_locked: bool,
    /// How much of the process's memory is locked, in KiB.
    pub locked_kib: u64,
    /// How much later than requested the kernel may end a sleep, in ns; 0 under a real-time policy.
    pub timer_slack_ns: u64,
    /// Requests that were not granted.
    #[serde(serialize_with = "in_sequence")]
    pub refusals: Refusals,
}

fn in_sequence<S: Serializer>(refusals: &Refusals, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(refusals)
}

/// Requests what `plan` states for a thread of this `role` and returns what the calling thread then has. Call
/// it once, first thing in the thread.
pub fn become_real_time(plan: &RtPlan, role: Role) -> Granted {
    become_real_time_on(plan, role, None)
}

/// Like [`become_real_time`], for a thread of the field with its own `core`, which is ignored for every role
/// but [`Role::Field`]. If that core is refused, the thread keeps off the tick's core, as it would without a
/// core of its own.
pub fn become_real_time_on(plan: &RtPlan, role: Role, core: Option<usize>) -> Granted {
    let core = core.filter(|_| role == Role::Field);
    let mut asked = Refusals::new();
    let mut note = |what, result: Result<(), Errno>| {
        if let Err(errno) = result {
            let _ = asked.push(Refusal { what, errno: errno.raw_os_error() }); // one place per request
        }
    };
    if plan.lock_memory {
        note(Request::Memory, lock_memory());
    }
    touch_stack();
    let priority = role.priority(plan.priority);
    if priority > 0 {
        // If the priority is refused, sleeps could otherwise end late by the default slack, 50 us.
        note(Request::TimerSlack, end_sleeps_on_time());
    }
    let own = core.map(|core| (core, run_only_on(core)));
    if let Some((core, result)) = own {
        note(Request::FieldCore(core), result);
    }
    if let Some(cpu) = plan.cpu.filter(|_| !matches!(own, Some((_, Ok(()))))) {
        match role {
            Role::Tick | Role::Tether => note(Request::Core(cpu), run_only_on(cpu)),
            Role::Field | Role::Slow => note(Request::Core(cpu), run_anywhere_but(cpu)),
            // Their work is short, and they run above the tick anyway or are not in its way.
            Role::Bus | Role::Edges | Role::Lines | Role::Guard | Role::Heartbeat => {}
        }
    }
    if priority > 0 {
        note(Request::Priority(priority), run_fifo(priority));
    }

    let mut granted = look(role);
    granted.refusals = asked;
    granted.doubt(plan, core);
    granted
}

/// Pins the calling thread, which belongs to the field, to `core`.
pub fn stay_on(core: usize) -> Result<(), Refusal> {
    let what = Request::FieldCore(core);
    run_only_on(core).map_err(|errno| Refusal { what, errno: errno.raw_os_error() })?;
    // Read back, like everything here: in a container the call may succeed without effect.
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    if set.count() == 1 && set.is_set(core) { Ok(()) } else { Err(Refusal { what, errno: 0 }) }
}

/// Makes the kernel wake the calling thread on time, not up to 50 us late, which is Linux's default for
/// non-real-time threads.
pub fn wake_on_time() -> Result<(), Refusal> {
    let what = Request::TimerSlack;
    end_sleeps_on_time().map_err(|errno| Refusal { what, errno: errno.raw_os_error() })
}

/// Sets the calling thread's timer slack to 1 ns, the minimum: 0 means the default.
fn end_sleeps_on_time() -> Result<(), Errno> {
    rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))
}

/// What the calling thread already has; requests nothing.
pub fn look(role: Role) -> Granted {
    let (policy, priority) = scheduling();
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cores = set.count();
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| set.is_set(cpu));
    let locked_kib = locked_kib();
    Granted {
        role,
        policy,
        priority,
        cpu: first.filter(|_| cores == 1),
        cores,
        memory_locked: locked_kib > 0,
        locked_kib,
        timer_slack_ns: rustix::thread::current_timer_slack().unwrap_or(u64::MAX),
        refusals: Refusals::new(),
    }
}

impl Granted {
    /// Adds the requests that the kernel accepted without effect (in a container, with a cpuset).
    fn doubt(&mut self, plan: &RtPlan, core: Option<usize>) {
        let priority = self.role.priority(plan.priority);
        let tick_core = plan.cpu.filter(|_| matches!(self.role, Role::Tick | Role::Tether));
        let lacking = [
            plan.lock_memory.then_some((Request::Memory, !self.memory_locked)),
            (priority > 0).then_some((Request::TimerSlack, self.timer_slack_ns > 1)),
            tick_core.map(|cpu| (Request::Core(cpu), self.cpu != Some(cpu))),
            core.map(|core| (Request::FieldCore(core), self.cpu != Some(core))),
            (priority > 0).then_some((
                Request::Priority(priority),
                (self.policy, self.priority) != (Policy::Fifo, priority),
            )),
        ];
        for (what, lacks) in lacking.into_iter().flatten() {
            if lacks && !self.refusals.iter().any(|refusal| refusal.what == what) {
                let _ = self.refusals.push(Refusal { what, errno: 0 });
            }
        }
    }

    /// Whether this is good enough: `Err` with the first refusal if the plan is strict.
    pub fn enough(&self, plan: &RtPlan) -> Result<(), Refusal> {
        match self.refusals.first() {
            Some(refusal) if plan.strict => Err(*refusal),
            _ => Ok(()),
        }
    }
}

impl Refusal {
    /// What the user can do about it.
    pub fn fix(&self) -> &'static str {
        match (self.what, self.errno) {
            (Request::Priority(_), libc::EPERM) => {
                "allow it with LimitRTPRIO=99 in the service, or '@robot - rtprio 99' in /etc/security/limits.d; \
                 if the limit is already set, the kernel has CONFIG_RT_GROUP_SCHED, and a cgroup v2 group has no \
                 real-time share: put 'rt_group_sched=0' on the kernel's command line (Linux 6.16 and later), else \
                 'sysctl kernel.sched_rt_runtime_us=-1', which also lets a runaway thread take a core for good"
            }
            (Request::Priority(_), _) => "choose another rt.priority in the board file, 1 to 99",
            (Request::Core(_), _) => {
                "choose another rt.cpu in the board file: 'ganglion doctor' lists the cores of this process"
            }
            (Request::FieldCore(_), _) => {
                "choose other field.cpus in the board file: 'ganglion doctor' lists the cores of this process"
            }
            (Request::Memory, _) => {
                "raise the limit: LimitMEMLOCK=infinity in the service, or '@robot - memlock unlimited' in \
                 /etc/security/limits.d"
            }
            (Request::TimerSlack, _) => "allow prctl in the service's SystemCallFilter",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Request::Priority(priority) => write!(f, "SCHED_FIFO priority {priority}")?,
            Request::Core(cpu) => write!(f, "core {cpu} (rt.cpu)")?,
            Request::FieldCore(cpu) => write!(f, "core {cpu} (field.cpus)")?,
            Request::Memory => f.write_str("locked memory")?,
            Request::TimerSlack => f.write_str("a timer slack of 1 ns")?,
        }
        match self.errno {
            0 => f.write_str(" accepted but not granted"),
            errno => write!(f, " refused: {}", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for Refusal {}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let what = match self.what {
            Request::Priority(_) => "priority",
            Request::Core(_) => "core",
            Request::FieldCore(_) => "field_core",
            Request::Memory => "memory",
            Request::TimerSlack => "timer_slack",
        };
        let mut object = to.serialize_struct("Refusal", 4)?;
        object.serialize_field("what", what)?;
        object.serialize_field("errno", &self.errno)?;
        object.serialize_field("words", &self.to_string())?;
        object.serialize_field("fix", self.fix())?;
        object.end()
    }
}

/// Locks present and future mappings. With a limit, `mlockall` could succeed and a later allocation fail
/// instead, so a limit counts as a refusal from the start.
fn lock_memory() -> Result<(), Errno> {
    let limited = getrlimit(Resource::Memlock).current.is_some();
    let capable =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if limited && !capable {
        return Err(Errno::NOMEM);
    }
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
}

/// Stack that is touched in advance: the deepest path of a tick or bus thread needs a few KiB, and
/// threads have 2 MiB, so this is generous and safe.
const TOUCHED_STACK: usize = 128 * 1024;

/// Writes the stack below the caller once, so that no page of it has its first fault in a control period.
#[inline(never)]
pub fn touch_stack() {
    let mut pages = [0u8; TOUCHED_STACK];
    std::hint::black_box(&mut pages);
}

/// Restricts the calling thread to core `cpu`.
fn run_only_on(cpu: usize) -> Result<(), Errno> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}

/// Leaves the tick's core to the tick. If the thread may run on no other core, nothing changes.
fn run_anywhere_but(cpu: usize) -> Result<(), Errno> {
    let mut set = rustix::thread::sched_getaffinity(None)?;
    if cpu >= CpuSet::MAX_CPU || !set.is_set(cpu) || set.count() == 1 {
        return Ok(());
    }
    set.unset(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}

fn run_fifo(priority: u8) -> Result<(), Errno> {
    let param = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: 0 is the calling thread; `param` lives across the call, which only reads it.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Policy and priority of the calling thread.
fn scheduling() -> (Policy, u8) {
    // SAFETY: takes a number (0: the calling thread) and returns one.
    let policy = match unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Policy::Other,
        libc::SCHED_FIFO => Policy::Fifo,
        libc::SCHED_RR => Policy::RoundRobin,
        libc::SCHED_DEADLINE => Policy::Deadline,
        _ => Policy::Another,
    };
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; `param` is a valid place for the answer and outlives the call.
    let answer = unsafe { libc::sched_getparam(0, &mut param) };
    let priority = if answer == 0 { u8::try_from(param.sched_priority).unwrap_or(0) } else { 0 };
    (policy, priority)
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// `VmLck` of `/proc/self/status`; 0 if that cannot be read, so that nothing unverified is claimed.
fn locked_kib() -> u64 {
    let mut text = [0u8; 4096]; // the line is within the first KiB
    let length = std::fs::File::open("/proc/self/status")
        .and_then(|mut file| io::Read::read(&mut file, &mut text))
        .unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
