//! A small board for unit tests.

use crate::base::plan::{
    Board, BudgetPlan, BusPlan, ComputedSensor, Curve, Decision, EngineKind, FieldPlan, MotorKind, MotorPlan,
    Params, QualityLevel, RtPlan, SafetyPlan, Scale, SensorKind, SensorPlan, Shape, Storage, Targets,
};
use crate::base::time::Span;

fn sensor(name: &str, kind: SensorKind) -> SensorPlan {
    SensorPlan {
        name: name.to_string(),
        unit: "m".to_string(),
        kind,
        bus: 0,
        period: Span::from_millis(50),
        max_age: Span::from_millis(200),
        valid: [0.0, 2.0],
        frozen_after: None,
        worst_per_s: 0.0,
        required: false,
        input: Some(Scale { low: 0.0, high: 2.0, curve: Curve::Linear }),
        looks_at: None,
        beam: None,
    }
}

fn motor(name: &str) -> MotorPlan {
    MotorPlan {
        name: name.to_string(),
        kind: MotorKind::Recorded { drive: true },
        limit: 1.0,
        slew_per_s: 10.0,
    }
}

/// A board with log columns `a` and `b` (0..2 m) and `least`, the smaller of the two; decisions `go` and
/// `stay`; motors `left` and `right`; a field of `grid` cells per axis every 50 ms.
pub fn board(grid: usize) -> Board {
    let column = |name: &str| sensor(name, SensorKind::LogColumn { column: name.to_string() });
    let decision = |label: &str, motors: [f32; 2]| Decision {
        label: label.to_string(),
        motors: motors.into_iter().collect(),
    };
    let period = Span::from_millis(50);
    Board {
        name: "sample".to_string(),
        compatible: Vec::new(),
        period,
        rt: RtPlan { strict: false, priority: 0, cpu: None, lock_memory: false },
        bus: BusPlan::Log,
        i2c: Vec::new(),
        reserved_addresses: Vec::new(),
        line_names: Vec::new(),
        pwm: None,
        enable: None,
        guard: None,
        mcu: None,
        sensors: vec![
            column("a"),
            column("b"),
            sensor("least", SensorKind::Computed(ComputedSensor::Least { of: vec![0, 1] })),
        ],
        motors: vec![motor("left"), motor("right")],
        reflexes: Vec::new(),
        safety: SafetyPlan {
            field_fresh: period,
            field_fade: period,
            command_valid: period,
            wire_lost: period,
            late_slots: 3,
            settle: Span::ZERO,
            reverse_max: period,
            disarm_after: period,
            auto_arm: true,
        },
        tether: None,
        field: FieldPlan {
            engine: EngineKind::Reference,
            shape: Shape { grid, sensors: 3, motors: 2, patterns: 1, bank: 16 },
            params: Params::default(),
            seed: 1,
            dt: period,
            every_ticks: 1,
            threads: 1,
            cpus: Vec::new(),
            storage: Storage::F32,
            learn: true,
            start: Vec::new(),
            correction: 1.0,
        },
        budget: BudgetPlan { target: period, headroom: 0.8, dwell: period, floor: QualityLevel::WORST },
        targets: Targets::default(),
        decisions: vec![decision("go", [0.5, 0.5]), decision("stay", [0.0, 0.0])],
        backing: None,
        wander: None,
        patrol: Vec::new(),
        decision_fields: Vec::new(),
        behaviours: Vec::new(),
        sim: None,
        motion: None,
    }
}
