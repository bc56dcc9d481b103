//! The report must match `/proc`. Whether the machine grants anything does not matter: these tests pass on a
//! laptop, in a container and on a robot.

use super::*;

const NOTHING: RtPlan = RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false };

/// On a thread of its own: what is granted here must not stick to the test runner's thread.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// A field of `/proc/thread-self/status`.
fn status(key: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key}")).trim().to_string()
}

/// (real-time priority, policy) from `/proc/thread-self/stat`, fields 40 and 41 of proc(5).
fn stat() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = text.rsplit_once(") ").unwrap().1; // the name may contain spaces; field 3 follows
    let fields: Vec<&str> = after_name.split(' ').collect();
    (fields[40 - 3].parse().unwrap(), fields[41 - 3].parse().unwrap())
}

fn requests(granted: &Granted) -> Vec<Request> {
    granted.refusals.iter().map(|refusal| refusal.what).collect()
}

#[test]
fn the_priority_reported_is_the_one_in_proc() {
    for role in [Role::Tick, Role::Bus, Role::Edges, Role::Field] {
        on_a_thread(|| {
            let granted = become_real_time(&RtPlan { priority: 30, ..NOTHING }, role);
            let (priority, policy) = stat();
            assert_eq!(u32::from(granted.priority), priority);
            assert_eq!(granted.policy == Policy::Fifo, policy == libc::SCHED_FIFO as u32);
            if role == Role::Field {
                return assert_eq!(granted.policy, Policy::Other);
            }
            // Either it was granted, or there is a refusal: exactly one of the two.
            let request = Request::Priority(role.priority(30));
            assert_eq!(granted.policy == Policy::Fifo, !requests(&granted).contains(&request), "{granted:?}");
        });
    }
}

#[test]
fn without_requests_nothing_changes_and_nothing_is_refused() {
    on_a_thread(|| {
        let before = look(Role::Tick);
        let granted = become_real_time(&NOTHING, Role::Tick);
        assert!(granted.refusals.is_empty());
        // Memory is locked for the whole process, and another test may have just done so.
        let Granted { memory_locked, locked_kib, .. } = before;
        assert_eq!(Granted { memory_locked, locked_kib, ..granted }, before);
    });
}

#[test]
fn the_tick_is_on_its_core_and_the_field_is_not() {
    let cores = on_a_thread(|| rustix::thread::sched_getaffinity(None).unwrap());
    let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| cores.is_set(cpu)).unwrap();
    let plan = RtPlan { cpu: Some(cpu), ..NOTHING };
    on_a_thread(|| {
        let granted = become_real_time(&plan, Role::Tick);
        assert_eq!((granted.cpu, granted.cores, granted.refusals.len()), (Some(cpu), 1, 0));
        assert_eq!(status("Cpus_allowed_list"), cpu.to_string());
    });
    on_a_thread(|| {
        let granted = become_real_time(&plan, Role::Field);
        assert_eq!(granted.cores, (cores.count() - 1).max(1));
        assert!(cores.count() == 1 || !rustix::thread::sched_getaffinity(None).unwrap().is_set(cpu));
    });
    on_a_thread(|| assert_eq!(become_real_time(&plan, Role::Bus).cores, cores.count()));
}

#[test]
fn field_gets_its_own_core_or_stays_off_the_ticks() {
    let cores = on_a_thread(|| rustix::thread::sched_getaffinity(None).unwrap());
    let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| cores.is_set(cpu)).unwrap();
    let plan = RtPlan { cpu: Some(cpu), ..NOTHING };
    on_a_thread(|| {
        let granted = become_real_time_on(&plan, Role::Field, Some(cpu));
        assert_eq!((granted.cpu, granted.cores, granted.refusals.len()), (Some(cpu), 1, 0));
        assert_eq!(rustix::thread::sched_getcpu(), cpu);
    });
    on_a_thread(|| {
        let granted = become_real_time_on(&plan, Role::Field, Some(usize::MAX));
        let refusal = Refusal { what: Request::FieldCore(usize::MAX), errno: libc::EINVAL };
        assert_eq!(granted.refusals[..], [refusal]);
        assert!(refusal.to_string().contains("field.cpus") && refusal.fix().contains("field.cpus"));
        assert_eq!(granted.cores, (cores.count() - 1).max(1));
    });
    // Only threads of the field have cores of their own.
    on_a_thread(|| assert_eq!(become_real_time_on(&NOTHING, Role::Bus, Some(cpu)).cores, cores.count()));
    on_a_thread(|| {
        assert_eq!(stay_on(cpu), Ok(()));
        assert_eq!(look(Role::Field).cpu, Some(cpu));
        let refusal = stay_on(CpuSet::MAX_CPU).unwrap_err();
        assert_eq!(refusal, Refusal { what: Request::FieldCore(CpuSet::MAX_CPU), errno: libc::EINVAL });
    });
}

#[test]
fn impossible_core_is_fatal_only_where_strict() {
    for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
        on_a_thread(|| {
            let plan = RtPlan { cpu: Some(cpu), ..NOTHING };
            let granted = become_real_time(&plan, Role::Tick);
            assert_eq!(granted.refusals[..], [Refusal { what: Request::Core(cpu), errno: libc::EINVAL }]);
            assert_eq!(granted.enough(&plan), Ok(()));
            let strict = RtPlan { strict: true, ..plan };
            let refusal = granted.enough(&strict).unwrap_err();
            assert!(refusal.to_string().contains(&cpu.to_string()), "{refusal}");
            assert!(refusal.fix().contains("rt.cpu"));
        });
    }
}

#[test]
fn the_slack_reported_is_the_one_in_proc() {
    on_a_thread(|| {
        let granted = become_real_time(&RtPlan { priority: 30, ..NOTHING }, Role::Tick);
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let text = std::fs::read_to_string(format!("/proc/{thread}/timerslack_ns")).unwrap();
        assert_eq!(text.trim().parse(), Ok(granted.timer_slack_ns));
        assert!(granted.timer_slack_ns <= 1, "every kernel grants this: {granted:?}");
    });
}

#[test]
fn memory_reported_as_locked_is_locked() {
    on_a_thread(|| {
        let granted = become_real_time(&RtPlan { lock_memory: true, ..NOTHING }, Role::Tick);
        let locked: u64 = status("VmLck").trim_end_matches(" kB").parse().unwrap();
        // The other tests of this process must not run with locked memory.
        rustix::mm::munlockall().unwrap();
        assert_eq!(granted.memory_locked, locked > 0);
        assert_eq!(granted.memory_locked, !requests(&granted).contains(&Request::Memory), "{granted:?}");
    });
}

#[test]
fn an_accepted_setting_that_is_missing_is_a_refusal() {
    let plan = RtPlan { strict: true, priority: 80, cpu: Some(2), lock_memory: true };
    let mut granted = Granted {
        role: Role::Tick,
        policy: Policy::Other,
        priority: 0,
        cpu: None,
        cores: 4,
        memory_locked: false,
        locked_kib: 0,
        timer_slack_ns: 50_000,
        refusals: Refusals::new(),
    };
    let eperm = Refusal { what: Request::Priority(80), errno: libc::EPERM };
    granted.refusals.push(eperm).unwrap();
    granted.doubt(&plan, None);
    assert_eq!(
        requests(&granted),
        [Request::Priority(80), Request::Memory, Request::TimerSlack, Request::Core(2)]
    );
    assert_eq!(granted.refusals[0], eperm, "the system's reason is kept");
    assert!(granted.refusals[1].to_string().contains("not granted"));
}

#[test]
fn role_priorities_keep_their_order_within_linux_limits() {
    let roles = [Role::Tick, Role::Bus, Role::Edges, Role::Lines, Role::Field, Role::Slow];
    let all = |tick| roles.map(|role| role.priority(tick));
    assert_eq!(all(80), [80, 85, 85, 86, 0, 0]);
    assert_eq!(all(99), [99, 99, 99, 99, 0, 0]);
    assert_eq!(all(10), [10, 15, 15, 16, 0, 0]);
    assert_eq!(all(0), [0; 6]);
}

#[test]
fn a_grant_is_one_json_object() {
    on_a_thread(|| {
        let granted = become_real_time(&RtPlan { cpu: Some(usize::MAX), ..NOTHING }, Role::Tick);
        let object = serde_json::to_value(&granted).unwrap();
        assert_eq!(object["role"], "tick");
        assert_eq!(object["refusals"][0]["what"], "core");
        assert_eq!(object["refusals"][0]["errno"], libc::EINVAL);
        assert!(object["refusals"][0]["fix"].as_str().is_some_and(|fix| !fix.is_empty()));
    });
}
