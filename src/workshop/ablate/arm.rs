//! The arms of an ablation: the board's own field, the drivers to compare it with, and the field with one
//! part left out. An arm is a modified board and the features that its read-out has weights for. The study
//! teaches each arm anew, so that the rest can make up for the missing part.

use crate::base::plan::{Board, ComputedSensor, Curve, Scale, SensorKind};
use crate::field::footprint::field_bytes;
use crate::field::shape::{BLOCK_COUNT, CONTENT, CONTENT_GROUPS, CONTEXT, DESCRIPTOR, FEATURES};
use crate::workshop::teach::fit::{Regressors, is_content};

/// One arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The table with the correction by the board's own field.
    Whole,
    /// The starting table alone.
    Table,
    /// Random requests: the simplest controller to compare with.
    Random,
    /// The table corrected by a linear map of the sensors without memory, taught like the field.
    Map,
    /// The read-out has no weights for the means of channels.
    ChannelMeans,
    /// The read-out has no weights for the means of blocks.
    BlockMeans,
    /// The read-out has no weights for the gradients.
    Gradients,
    /// The read-out also has weights for slow and pattern channels.
    SlowToo,
    /// No cell receives input from itself or its neighbours: gamma and lambda are 0.
    Recurrence,
    /// No cell receives input from its neighbours: lambda is 0.
    Diffusion,
    /// The prediction's error does not drive the field: eta is 0.
    ErrorDrive,
    /// The prediction learns nothing, and the bank stores nothing.
    Learning,
    /// The library has only one pattern.
    Library,
    /// The bank has only one experience.
    Bank,
    /// The field does not receive the motors' commands.
    MotorEcho,
    /// The field does not receive what the map reports about the present place.
    Recall,
    /// Nothing steers the robot by what the navigator remembers.
    Wander,
    /// It leaves arcs to remembered obstacles, but seeks no new ground.
    NewGround,
    /// Instead of new ground it seeks ground that it knows: what leaving its orbit does by itself.
    KnownGround,
}

/// How an arm is taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taught {
    /// Not at all.
    No,
    /// By its own lessons.
    Itself,
    /// The missing part plays no role in lessons, so the arm drives with the whole field's read-out.
    AsWhole,
}

/// With a scale this wide, an input is constant.
const MUTE: Scale = Scale { low: -1e30, high: 1e30, curve: Curve::Linear };

impl Arm {
    /// All arms, the whole field first.
    pub const ALL: [Arm; 19] = [
        Arm::Whole,
        Arm::Table,
        Arm::Random,
        Arm::Map,
        Arm::ChannelMeans,
        Arm::BlockMeans,
        Arm::Gradients,
        Arm::SlowToo,
        Arm::Recurrence,
        Arm::Diffusion,
        Arm::ErrorDrive,
        Arm::Learning,
        Arm::Library,
        Arm::Bank,
        Arm::MotorEcho,
        Arm::Recall,
        Arm::Wander,
        Arm::NewGround,
        Arm::KnownGround,
    ];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Arm::Whole => "whole",
            Arm::Table => "table",
            Arm::Random => "random",
            Arm::Map => "map",
            Arm::ChannelMeans => "no-channel-means",
            Arm::BlockMeans => "no-block-means",
            Arm::Gradients => "no-gradients",
            Arm::SlowToo => "slow-too",
            Arm::Recurrence => "no-recurrence",
            Arm::Diffusion => "no-diffusion",
            Arm::ErrorDrive => "no-error-drive",
            Arm::Learning => "no-learning",
            Arm::Library => "no-library",
            Arm::Bank => "no-bank",
            Arm::MotorEcho => "no-motor-echo",
            Arm::Recall => "no-recall",
            Arm::Wander => "no-wander",
            Arm::NewGround => "no-new-ground",
            Arm::KnownGround => "known-ground",
        }
    }

    /// The arm with that name.
    pub fn named(name: &str) -> Option<Arm> {
        Arm::ALL.into_iter().find(|arm| arm.name() == name)
    }

    /// How it is taught.
    pub const fn taught(self) -> Taught {
        match self {
            Arm::Table | Arm::Random => Taught::No,
            Arm::Library | Arm::Bank => Taught::AsWhole,
            _ => Taught::Itself,
        }
    }

    /// Whether the field's seed changes the arm's result.
    pub const fn has_field(self) -> bool {
        !matches!(self, Arm::Table | Arm::Random | Arm::Map)
    }

    /// Memory that the arm's driver takes on its `board`, in bytes, computed from sizes: that of the field
    /// with a full library and bank, or that of the linear map's weights.
    pub fn memory_bytes(self, board: &Board) -> u64 {
        let shape = &board.field.shape;
        match self {
            Arm::Table | Arm::Random => 0,
            Arm::Map => (size_of::<f32>() * shape.motors * (shape.sensors + 1)) as u64,
            _ => field_bytes(&board.field),
        }
    }

    /// `board` modified for this arm. `None`: the board lacks the part that this arm leaves out.
    pub fn board(self, board: &Board) -> Option<Board> {
        let mut board = board.clone();
        let params = &mut board.field.params;
        match self {
            Arm::Recurrence => (params.gamma, params.lambda) = (0.0, 0.0),
            Arm::Diffusion => params.lambda = 0.0,
            Arm::ErrorDrive => params.eta = 0.0,
            Arm::Learning => board.field.learn = false,
            Arm::Library if board.field.shape.patterns == 1 => return None,
            Arm::Library => board.field.shape.patterns = 1,
            Arm::Bank if board.field.shape.bank == 1 => return None,
            Arm::Bank => board.field.shape.bank = 1,
            Arm::MotorEcho => mute(&mut board, |kind| {
                matches!(kind, SensorKind::Computed(ComputedSensor::MotorEcho { .. }))
            })?,
            Arm::Recall => {
                mute(&mut board, |kind| matches!(kind, SensorKind::Computed(ComputedSensor::Recall { .. })))?
            }
            Arm::Wander => drop(board.wander.take()?),
            Arm::NewGround | Arm::KnownGround => {
                let wander = board.wander.as_mut().filter(|wander| wander.new_ground != 0.0)?;
                wander.new_ground *= if self == Arm::KnownGround { -1.0 } else { 0.0 };
            }
            _ => {}
        }
        Some(board)
    }

    /// The features or sensors that its read-out has weights for.
    pub fn regressors(self, board: &Board) -> Regressors {
        let content = |without: fn(usize) -> bool| {
            let kept = |feature: &usize| is_content(*feature) && !without(*feature);
            Regressors::Features((0..FEATURES).filter(kept).collect())
        };
        const BLOCKS: usize = CONTEXT + CONTENT_GROUPS * BLOCK_COUNT;
        const AFTER_BLOCKS: usize = CONTEXT + DESCRIPTOR;
        match self {
            Arm::Map => Regressors::Sensors(board.field.shape.sensors),
            Arm::ChannelMeans => content(|feature| feature < CONTENT),
            Arm::BlockMeans => content(|feature| (CONTEXT..BLOCKS).contains(&feature)),
            Arm::Gradients => content(|feature| feature >= AFTER_BLOCKS),
            Arm::SlowToo => Regressors::Features((0..FEATURES).collect()),
            _ => Regressors::content(),
        }
    }
}

/// Mutes the field's inputs of one kind. `None`: there are none.
fn mute(board: &mut Board, is_of_kind: impl Fn(&SensorKind) -> bool) -> Option<()> {
    let inputs = board.sensors.iter_mut().filter(|sensor| is_of_kind(&sensor.kind));
    let muted = inputs.filter_map(|sensor| sensor.input.as_mut().map(|scale| *scale = MUTE)).count();
    (muted > 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ablation_arm_lacks_only_its_part() {
        let mut whole = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        for absent in [Arm::Recall, Arm::Library, Arm::Bank] {
            assert_eq!(absent.board(&whole), None, "this board has no {}", absent.name());
        }
        (whole.field.shape.patterns, whole.field.shape.bank) = (100, 10_000);
        let content = Regressors::content().count();
        for arm in Arm::ALL.into_iter().filter(|arm| *arm != Arm::Recall) {
            let board = arm.board(&whole).expect("the board has the part");
            let changed = board != whole;
            let regressors = arm.regressors(&board);
            let as_many = regressors.count() == content;
            let is_same = matches!(arm, Arm::Whole | Arm::Table | Arm::Random);
            assert_eq!(changed || !as_many, !is_same, "{}", arm.name());
            assert!(!changed || as_many, "{}: an arm changes only one thing", arm.name());
            assert_eq!(Arm::named(arm.name()), Some(arm));
        }
        let counts = [Arm::ChannelMeans, Arm::BlockMeans, Arm::Gradients].map(|arm| {
            let Regressors::Features(features) = arm.regressors(&whole) else { return 0 };
            content - features.len()
        });
        assert_eq!(
            counts.iter().sum::<usize>(),
            content,
            "{counts:?}: the three groups together are all content features"
        );
    }

    #[test]
    fn leaving_out_a_memory_saves_its_bytes() {
        let mut whole = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        (whole.field.shape.patterns, whole.field.shape.bank) = (100, 10_000);
        let bytes = |arm: Arm| arm.memory_bytes(&arm.board(&whole).unwrap());
        let (motors, sensors) = (whole.field.shape.motors, whole.field.shape.sensors);
        assert_eq!(bytes(Arm::Whole), field_bytes(&whole.field));
        assert!(bytes(Arm::Bank) < bytes(Arm::Whole) && bytes(Arm::Library) < bytes(Arm::Whole));
        assert_eq!(bytes(Arm::Recurrence), bytes(Arm::Whole), "its weights are parameters");
        assert_eq!([Arm::Table, Arm::Random].map(bytes), [0, 0]);
        assert_eq!(bytes(Arm::Map), (4 * motors * (sensors + 1)) as u64);
    }

    #[test]
    fn a_muted_input_is_constant() {
        let whole = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let board = Arm::MotorEcho.board(&whole).unwrap();
        let muted: Vec<&str> = (board.sensors.iter().zip(&whole.sensors))
            .filter(|(mine, its)| mine.input != its.input)
            .map(|(mine, _)| mine.name.as_str())
            .collect();
        assert!(!muted.is_empty());
        for sensor in board.sensors.iter().filter(|sensor| muted.contains(&sensor.name.as_str())) {
            let scale = sensor.input.unwrap();
            assert!([-1.0, 0.0, 1.0].iter().all(|command| scale.apply(*command).abs() < 1e-6));
        }
    }
}
