//! The host's side of a cycle, as `kernels/README.md` describes it: tables, buffers, what is due, and the
//! launches in their order. Runs on the emulator; one or more robots share constant data.

use super::emulator::{Buffer, Device};
use super::tables::{
    ABOUT, ANSWER, BRAIN, CYCLE, CYCLE_SENSORS, Cycle, DeviceAnswer, MATCH, METRIC, METRIC_RING, METRICS,
    METRICS_BEFORE, QUERY, REPORT, Reader, SENSES, SWEEP, Table, from_half, is_half, reach, rule, to_half,
};
use ganglion::base::command::MAX_MOTORS;
use ganglion::base::frame::MAX_SENSORS;
use ganglion::base::plan::FieldPlan;
use ganglion::base::seed::{Stream, normal};
use ganglion::field::FieldInput;
use ganglion::field::projections::Projections;
use ganglion::field::shape::{
    BANK_TOP, CHANNELS, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES, GROUP, GROUPS, METRICS_EVERY, PATTERN,
    SLOW_FIRST, TURN, is_due, regressors, sub_steps,
};

/// Tasks of the kernel `answer`, as a bit mask: only the bank, and all three.
const TASK_BANK: u32 = 1;
const ALL_TASKS: u32 = 7;

/// The launch parameters that can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Launching {
    /// Planes in a slab of `evolve`.
    pub planes: usize,
    /// Blocks in a scan of the bank.
    pub blocks: u32,
}

/// A robot's own buffers that the tests read.
struct Robot {
    given: Buffer,
    sensors: Buffer,
    answer: Buffer,
    report: Buffer,
    cells: [[Buffer; 2]; 2],
    features: Buffer,
    learned: Buffer,
    metrics: Buffer,
    block_sums: Buffer,
    about: Buffer,
    /// Exact rows, coarse rows, scale, error, value, last_use, high.
    bank: [Buffer; 7],
    low: Buffer,
}

/// A sweep of the bank with the test's descriptor, and the scan's result for every row.
pub struct Swept {
    /// The query: exact, as quantised, and a bound of the difference.
    pub query: Vec<f32>,
    pub query_coarse: Vec<f64>,
    pub query_error: f64,
    /// Rows: exact, as quantised for the scan, and bounds of the difference.
    pub rows: Vec<Vec<f32>>,
    pub coarse: Vec<Vec<f64>>,
    pub errors: Vec<f32>,
    /// Upper bounds of the rows' cosines; for each block, lower bounds of its five best cosines.
    pub high: Vec<f32>,
    pub low: Vec<f32>,
    pub answer: DeviceAnswer,
}

/// Robots of one plan on a device.
pub struct Rig {
    device: Device,
    plan: FieldPlan,
    launching: Launching,
    projections: Projections,
    brains: Buffer,
    robots: Vec<Robot>,
    volumes: [Buffer; 2],
    /// Addresses of each slot's volumes.
    slots: [Buffer; 2],
    contexts: Buffer,
    stored: Buffer,
    readout: Buffer,
    orders: Cycle,
    /// Which of the two buffers holds each group, for both grids.
    front: [[u32; GROUPS]; 2],
    fresh: [bool; GROUPS],
    since_step: [u64; GROUPS],
    since_blend: u64,
    since_learn: u64,
    on_half: bool,
    age: u64,
}

fn f64s(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
    Table::default().f64s(&numbers.into_iter().collect::<Vec<_>>()).bytes()
}
fn f32s(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
    let numbers: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
    Table::default().f32s(&numbers).bytes()
}
fn u32s(numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let numbers: Vec<u32> = numbers.into_iter().map(|number| number as u32).collect();
    Table::default().u32s(&numbers).bytes()
}

impl Rig {
    /// Robots at rest; `None` without a device.
    pub fn new(plan: &FieldPlan, launching: Launching, robots: usize) -> Option<Rig> {
        let mut device = Device::open()?;
        let projections = Projections::new(plan, plan.shape.grid);
        let (cells, patterns) = (plan.shape.cells(), plan.shape.patterns);
        let profile = |projections: &Projections| {
            let cut = |phi: &f64| if *phi < 1e-9 { 0.0 } else { *phi };
            f32s(projections.profile.iter().flatten().flatten().map(cut))
        };
        let taps: Vec<Vec<usize>> = (0..CHANNELS)
            .map(|c| (0..plan.shape.sensors).filter(|s| projections.weight[c][*s].abs() > 0.0).collect())
            .collect();
        let first = (0..=CHANNELS).map(|c| taps[..c].iter().map(Vec::len).sum());
        let weights = (0..CHANNELS).flat_map(|c| taps[c].iter().map(move |s| (c, *s)));
        let gain = plan.params.gain;
        let hardware = [
            device.hold(&profile(&projections)),
            device.hold(&profile(&projections.halved())),
            device.hold(&u32s(first)),
            device.hold(&u32s(taps.iter().flatten().copied())),
            device.hold(&f32s(weights.map(|(c, s)| gain * projections.weight[c][s]))),
            device.hold(&f32s(projections.bias.iter().map(|h| gain * h))),
        ];
        let rule = device.hold(&rule(plan));
        let volumes = [cells, cells / 8].map(|cells| device.hold(&vec![0; patterns * PATTERN * cells * 2]));
        let slots = [cells, cells / 8].map(|cells| (device.allocate(patterns * 8), PATTERN * cells * 2));
        for ((table, bytes), volumes) in slots.into_iter().zip(volumes) {
            (0..patterns).for_each(|slot| device.point(table, slot * 8, volumes, slot * bytes));
        }
        let contexts = device.hold(&vec![0; patterns * CONTEXT * 8]);
        let stored = device.hold(&vec![0; patterns * 4]);
        let readout = device.hold(&vec![0; plan.shape.weights() * 4]);
        let brains = device.allocate(robots * BRAIN);
        let mut rig = Rig {
            robots: Vec::new(),
            plan: plan.clone(),
            launching,
            projections,
            brains,
            volumes,
            slots: slots.map(|(table, _)| table),
            contexts,
            stored,
            readout,
            device,
            orders: Cycle::default(),
            front: [[0; GROUPS]; 2],
            fresh: [false; GROUPS],
            since_step: [0; GROUPS],
            since_blend: 0,
            since_learn: 0,
            on_half: false,
            age: 0,
        };
        for number in 0..robots {
            rig.add_robot(number, rule, hardware);
        }
        Some(rig)
    }

    /// The buffers of one robot, and its row in the table of brains.
    fn add_robot(&mut self, number: usize, rule: Buffer, hardware: [Buffer; 6]) {
        let (shape, n) = (self.plan.shape, regressors(self.plan.shape.sensors));
        let cells = shape.cells();
        let start = self.cells_at_rest();
        let identity = f64s((0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }));
        let about = self.about_at_rest();
        let device = &mut self.device;
        let orders = [device.allocate(CYCLE), device.allocate(CYCLE)];
        let sensors = device.allocate(MAX_SENSORS * 4);
        let answer = device.hold(&DeviceAnswer::at_start());
        let report = device.hold(&[0; REPORT]);
        let whole = [device.hold(&start), device.allocate(CHANNELS * cells * 4)];
        let half = [0, 1].map(|_| device.allocate(CHANNELS * cells / 8 * 4));
        let features = device.hold(&vec![0; FEATURES * 4]);
        let learned = device.allocate((DESCRIPTOR + 1) * 4);
        let metrics = device.hold(&vec![0; METRICS]);
        let mut places = vec![rule, orders[0], orders[1], answer, report];
        places.extend(hardware);
        let pointers: Vec<(Buffer, usize)> = places.into_iter().map(|buffer| (buffer, 0)).collect();
        let groups = |buffer: Buffer, cells: usize| (0..GROUPS).map(move |g| (buffer, g * GROUP * cells * 4));
        let mut pointers = pointers;
        whole.iter().for_each(|buffer| pointers.extend(groups(*buffer, cells)));
        half.iter().for_each(|buffer| pointers.extend(groups(*buffer, cells / 8)));
        let mut own = vec![self.slots[0], self.slots[1], self.contexts, self.stored];
        own.push(device.allocate(shape.grid * CHANNELS * 4)); // channel_sums
        let block_sums = device.allocate(shape.grid * GROUPS * 16 * 4);
        own.push(block_sums);
        own.push(device.allocate(CONTENT_GROUPS * cells * 4)); // group_sums
        let about = device.hold(&about);
        own.extend([features, about, device.hold(&vec![0; SENSES])]);
        own.extend([device.hold(&vec![0; shape.sensors * n * 8]), device.hold(&identity), learned]);
        // exact, coarse, scale, error, value, last_use, high
        let bank =
            [DESCRIPTOR * 4, DESCRIPTOR, 4, 4, 8, 8, 4].map(|bytes| device.allocate(shape.bank * bytes));
        own.extend(bank);
        let lists = self.launching.blocks as usize * BANK_TOP;
        let low = device.allocate(lists * 4);
        let found = lists + self.launching.blocks as usize;
        own.extend([low, device.allocate(found * MATCH), device.hold(&[0; SWEEP])]);
        own.extend([self.readout, device.hold(&[0; 2 * MAX_MOTORS * 8]), metrics]);
        pointers.extend(own.into_iter().map(|buffer| (buffer, 0)));
        assert_eq!(pointers.len() * 8, BRAIN, "the table matches kernels/brain.cuh");
        for (index, (to, at)) in pointers.into_iter().enumerate() {
            device.point(self.brains, number * BRAIN + index * 8, to, at);
        }
        let (given, cells) = (orders[0], [whole, half]);
        self.robots.push(Robot {
            given,
            sensors,
            answer,
            report,
            cells,
            features,
            learned,
            metrics,
            block_sums,
            about,
            bank,
            low,
        });
    }

    fn about_at_rest(&self) -> Vec<u8> {
        let rest = &self.projections.rest;
        let group = |i: usize| rest[i / 64 * GROUP..][..GROUP].iter().sum::<f64>() / GROUP as f64;
        let zeros = [0.0; CONTEXT + DESCRIPTOR];
        let mut about = f64s(zeros.into_iter().chain(rest.iter().copied()).chain((0..DESCRIPTOR).map(group)));
        about.resize(ABOUT, 0);
        about
    }

    fn cells_at_rest(&self) -> Vec<u8> {
        let cells = self.plan.shape.cells();
        let mut bytes = vec![0; CHANNELS * cells * 4];
        for (channel, rest) in self.projections.rest.iter().enumerate() {
            let group = channel / GROUP;
            let start = group * GROUP * cells * 4;
            if is_half(&self.plan, group) {
                let one = to_half(*rest as f32).to_le_bytes();
                bytes[start + channel % GROUP * cells * 2..][..cells * 2].copy_from_slice(&one.repeat(cells));
            } else {
                let one = (*rest as f32).to_le_bytes();
                bytes[start + channel % GROUP * cells * 4..][..cells * 4].copy_from_slice(&one.repeat(cells));
            }
        }
        bytes
    }

    /// Sets a read-out.
    pub fn set_readout(&mut self, weights: &[f32]) {
        let mut both = vec![0.0; self.plan.shape.weights()];
        assert!(self.plan.shape.copy_weights(weights, &mut both), "a read-out of this field");
        let bytes = Table::default().f32s(&both).bytes();
        self.device.write(self.readout, 0, &bytes);
    }

    /// Stores a pattern for both grids, quantised in steps of (1 - beta) / 32767.
    pub fn store_pattern(&mut self, slot: usize, volume: &[f32], context: &[f32; CONTEXT]) {
        let (n, step) = (self.plan.shape.grid, reach(&self.plan) / 32767.0);
        let mut means = vec![0.0; PATTERN * n * n * n / 8];
        for (cell, v) in volume.iter().enumerate() {
            let [x, y, z, channel] = [cell % n, cell / n % n, cell / n / n % n, cell / n / n / n];
            means[((channel * (n / 2) + z / 2) * (n / 2) + y / 2) * (n / 2) + x / 2] += v / 8.0;
        }
        for (buffer, values) in self.volumes.into_iter().zip([volume, &means]) {
            let steps: Vec<i16> = values.iter().map(|v| (v / step).round() as i16).collect();
            let bytes = Table::default().i16s(&steps).bytes();
            self.device.write(buffer, slot * bytes.len(), &bytes);
        }
        let about: Vec<f64> =
            context.iter().zip(&self.projections.rest).map(|(c, rest)| f64::from(*c) - rest).collect();
        let length = about.iter().map(|c| c * c).sum::<f64>().sqrt().max(1e-3);
        self.device.write(self.contexts, slot * CONTEXT * 8, &f64s(about.iter().map(|c| c / length)));
        self.device.write(self.stored, slot * 4, &1_u32.to_le_bytes());
    }

    /// Stores an experience in every robot's bank.
    pub fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) {
        for robot in &self.robots {
            let bytes = Table::default().f32s(descriptor).f32s(&[value]).bytes();
            self.device.write(robot.learned, 0, &bytes);
        }
        self.launch("experience", [1, 1], 256, [0, 0]);
    }

    /// The first `count` exact rows of robot 0's bank.
    pub fn rows(&mut self, count: usize) -> Vec<Vec<f32>> {
        let bytes = self.device.read(self.robots[0].bank[0], 0, count * DESCRIPTOR * 4);
        Reader(&bytes).f32s(count * DESCRIPTOR).chunks(DESCRIPTOR).map(<[f32]>::to_vec).collect()
    }

    /// Forgets all experiences of robot 0.
    pub fn empty_bank(&mut self) {
        self.device.write(self.robots[0].answer, 0, &DeviceAnswer::at_start());
    }

    /// Compares a descriptor (relative to rest) with the bank, with the orders of the last cycle. Runs every
    /// step from the sums of the features to the answer.
    pub fn sweep(&mut self, descriptor: &[f32; DESCRIPTOR]) -> Swept {
        let Robot { block_sums, about, bank, low, answer, .. } = self.robots[0];
        let slabs = self.plan.shape.grid / 4 / self.launching.planes;
        let cells = (self.plan.shape.grid / 4).pow(3) * GROUP;
        let mut sums = vec![0.0_f32; self.plan.shape.grid * GROUPS * 16];
        for (i, value) in descriptor.iter().enumerate() {
            let (group, block) = (i / 64, i % 64);
            sums[(block / 16 * slabs * GROUPS + group) * 16 + block % 16] = value * cells as f32;
        }
        self.device.write(block_sums, 0, &Table::default().f32s(&sums).bytes());
        let rest = (CONTEXT + DESCRIPTOR + CONTEXT) * 8;
        self.device.write(about, rest, &[0; DESCRIPTOR * 8]);
        self.launch_features();
        self.launch_bank(TASK_BANK);
        let answer = DeviceAnswer::read(&self.device.read(answer, 0, ANSWER));
        let (used, wide) = (answer.experiences, DESCRIPTOR);
        let made = self.device.read(about, QUERY, ABOUT - QUERY);
        let mut made = Reader(&made);
        let query = made.f32s(wide);
        let bytes = made.i8s(wide);
        let [scale, query_error] = [(); 2].map(|()| f64::from(made.f32s(1)[0]));
        let numbers = |device: &mut Device, buffer, count: usize| {
            Reader(&device.read(buffer, 0, count * 4)).f32s(count)
        };
        let exact = numbers(&mut self.device, bank[0], used * wide);
        let scales = numbers(&mut self.device, bank[2], used);
        let steps = Reader(&self.device.read(bank[1], 0, used * wide)).i8s(used * wide);
        let worth = |(i, step): (usize, &i8)| f64::from(*step) * f64::from(scales[i / wide]);
        let coarse: Vec<f64> = steps.iter().enumerate().map(worth).collect();
        Swept {
            query_coarse: bytes.iter().map(|step| f64::from(*step) * scale).collect(),
            query,
            query_error,
            rows: exact.chunks(wide).map(<[f32]>::to_vec).collect(),
            coarse: coarse.chunks(wide).map(<[f64]>::to_vec).collect(),
            errors: numbers(&mut self.device, bank[3], used),
            high: numbers(&mut self.device, bank[6], used),
            low: numbers(&mut self.device, low, self.launching.blocks as usize * BANK_TOP),
            answer,
        }
    }

    fn launch(&mut self, name: &str, grid: [u32; 2], threads: u32, how: [u32; 2]) {
        let robots = self.robots.len() as u32;
        self.device.launch(name, grid, robots, threads, self.brains, how);
    }

    /// One cycle of all robots at the same level, with one input each.
    pub fn cycle(&mut self, inputs: &[FieldInput]) -> Vec<DeviceAnswer> {
        let changes = self.order(&inputs[0]);
        self.orders.ticket += 1;
        for (robot, input) in self.robots.iter().zip(inputs) {
            let orders = Cycle { reward: input.reward, ..self.orders.clone() };
            self.device.write(robot.sensors, 0, &Table::default().f32s(&input.sensors).bytes());
            self.device.write(robot.given, 0, &orders.bytes());
            self.device.point(robot.given, CYCLE_SENSORS, robot.sensors, 0);
        }
        self.launch_cycle(changes);
        self.settle();
        let reports: Vec<Buffer> = self.robots.iter().map(|robot| robot.report).collect();
        reports.into_iter().map(|report| self.answer(report)).collect()
    }

    /// Reads the answer from a report, and checks that the report is complete.
    fn answer(&mut self, report: Buffer) -> DeviceAnswer {
        let bytes = self.device.read(report, 0, REPORT);
        let mut end = Reader(&bytes[ANSWER..]);
        let times = end.u64s(2);
        let _row = (end.u64s(2), end.u32s(DESCRIPTOR));
        let ticket = end.u32s(1)[0];
        assert!(ticket == self.orders.ticket && 0 < times[0] && times[0] <= times[1], "{ticket}, {times:?}");
        DeviceAnswer::read(&bytes[..ANSWER])
    }

    /// Works out what is due in this cycle; returns whether this is the first cycle on another grid.
    fn order(&mut self, input: &FieldInput) -> bool {
        let (cycle, work, dt) = (input.cycle, input.quality.work(), self.plan.dt.as_secs_f64());
        let changes = self.on_half != work.half_resolution;
        if changes {
            self.orders.left = self.front[usize::from(self.on_half)];
            self.on_half = work.half_resolution;
            self.fresh = [false; GROUPS];
        }
        for group in 0..GROUPS {
            self.since_step[group] += 1;
            let every = if group < CONTENT_GROUPS { 1 } else { work.slow_every };
            let held = self.since_step[group] as f64 * dt;
            let t =
                if group * GROUP < SLOW_FIRST { self.plan.params.t_fast } else { self.plan.params.t_slow };
            let due = is_due(cycle.wrapping_add(TURN[group]), every, self.since_step[group]);
            let (count, share) = if due { sub_steps(held, t) } else { (0, 0.0) };
            self.orders.count[group] = count as u32;
            (self.orders.take[group], self.orders.hold[group]) = (share as f32, (1.0 - share) as f32);
            self.orders.stale[group] = u32::from(count == 0 && !self.fresh[group]);
            self.fresh[group] = true;
            self.since_step[group] = if count > 0 { 0 } else { self.since_step[group] };
        }
        self.orders.front = self.front[usize::from(self.on_half)];
        self.since_blend += 1;
        let blend_due = is_due(cycle, work.blend_every, self.since_blend);
        self.since_blend = if blend_due { 0 } else { self.since_blend };
        let mut learn_due = false;
        if self.plan.learn && self.age > 0 {
            self.since_learn += 1;
            learn_due = is_due(cycle, work.learn_every, self.since_learn);
            if learn_due {
                self.orders.keep = libm::pow(self.plan.params.forget_per_s, dt * self.since_learn as f64);
                self.since_learn = 0;
            }
        }
        self.orders.number = cycle;
        for (row, noise) in self.orders.noise.iter_mut().enumerate() {
            let index = cycle.wrapping_mul(MAX_MOTORS as u64).wrapping_add(row as u64);
            *noise = self.plan.params.explore * normal(self.plan.seed, Stream::Explore, index);
        }
        let moved = changes && self.age > 0;
        let yes_no = [self.age == 0, self.on_half, moved, learn_due, blend_due].map(u32::from);
        let [first, on_half, moved, learn_due, blend_due] = yes_no;
        let metrics_due = u32::from(cycle.is_multiple_of(METRICS_EVERY));
        let (part, parts) = (cycle % work.bank_parts, work.bank_parts);
        let top = work.blend_top as u32;
        self.orders.flags =
            [first, on_half, moved, learn_due, blend_due, top, metrics_due, part as u32, parts as u32];
        changes
    }

    /// The launches of a cycle, in their order.
    fn launch_cycle(&mut self, changes: bool) {
        let shape = self.plan.shape;
        let n = shape.grid / if self.on_half { 2 } else { 1 };
        let planes = self.launching.planes.min(n / 4);
        let columns = regressors(shape.sensors);
        self.launch("sense", [1 + columns.div_ceil(2) as u32, 1], 64, [0, 0]);
        if changes {
            let halves = (shape.cells() / 8).div_ceil(256) as u32;
            let name = if self.on_half { "enter_half" } else { "leave_half" };
            self.launch(name, [CHANNELS as u32, halves], 256, [0, 0]);
        }
        let team = (n * n / 4).min(256);
        let threads = (team * (256 / team).min(GROUP)) as u32;
        let sub_steps = self.orders.count.iter().max().copied().unwrap_or(0).max(1);
        for sub_step in 0..sub_steps {
            let grid = [(n / planes) as u32, GROUPS as u32];
            self.launch(&format!("evolve_{n}"), grid, threads, [sub_step, planes as u32]);
        }
        self.launch_features();
        self.launch_bank(ALL_TASKS);
        self.launch("metrics", [CHANNELS as u32, 1], 256, [0, 0]);
    }

    fn launch_features(&mut self) {
        let side = self.plan.shape.grid / if self.on_half { 8 } else { 4 };
        let threads = (side * side * side).clamp(32, 128) as u32;
        let planes = self.launching.planes.min(side);
        self.launch("features", [64, GROUPS as u32 + 1], threads, [0, planes as u32]);
    }

    /// The scan, the answer, and its delivery.
    fn launch_bank(&mut self, tasks: u32) {
        let (shape, blocks) = (self.plan.shape, self.launching.blocks);
        let others = 1 + shape.sensors.div_ceil(8) + shape.motors;
        self.launch("bank_scan", [blocks, 1], 256, [0, 0]);
        self.launch("answer", [blocks + others as u32, 1], 256, [blocks, tasks]);
        self.launch("deliver", [1, 1], 256, [blocks, 0]);
    }

    /// Updates the host's state after the cycle.
    fn settle(&mut self) {
        for (front, count) in self.front[usize::from(self.on_half)].iter_mut().zip(self.orders.count) {
            *front = (*front + count) % 2;
        }
        self.age += 1;
    }

    /// Cells of a channel on the grid in use.
    pub fn channel(&mut self, robot: usize, channel: usize) -> Vec<f32> {
        let grid = usize::from(self.on_half);
        let (group, cells) = (channel / GROUP, self.plan.shape.cells() >> (3 * grid));
        let buffer = self.robots[robot].cells[grid][self.front[grid][group] as usize];
        let (half, start) = (is_half(&self.plan, group), group * GROUP * cells * 4);
        let width = if half { 2 } else { 4 };
        let bytes = self.device.read(buffer, start + channel % GROUP * cells * width, cells * width);
        let mut from = Reader(&bytes);
        if half { from.u16s(cells).into_iter().map(from_half).collect() } else { from.f32s(cells) }
    }

    /// Features of the last cycle.
    pub fn features(&mut self, robot: usize) -> Vec<f32> {
        let bytes = self.device.read(self.robots[robot].features, 0, FEATURES * 4);
        Reader(&bytes).f32s(FEATURES)
    }

    /// Number of entries ever written to the metrics ring, and the newest: cycle, and mean, std, max, energy,
    /// novelty, skill, confidence.
    pub fn metric(&mut self, robot: usize) -> (u64, u64, Vec<f32>) {
        let bytes = self.device.read(self.robots[robot].metrics, METRICS_BEFORE, METRIC_RING * METRIC + 8);
        let written = Reader(&bytes[METRIC_RING * METRIC..]).u64s(1)[0];
        let newest = (written.max(1) - 1) as usize % METRIC_RING;
        let mut from = Reader(&bytes[newest * METRIC..]);
        let cycle = from.u64s(1)[0];
        (written, cycle, from.f32s(7))
    }

    /// Computes the metrics now, even if they are not due.
    pub fn measure_now(&mut self) {
        self.launch("metrics", [CHANNELS as u32, 1], 256, [1, 0]);
    }

    /// Launches so far.
    pub fn launches(&self) -> u64 {
        self.device.launches()
    }
}
