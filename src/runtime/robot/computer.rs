//! Stands in for the kernel's files on a simulated robot: the machine that runs the simulation is not the
//! robot's own computer.

use crate::base::fault::BusFault;
use crate::base::plan::SensorPlan;
use crate::hardware::device::{DeviceFault, Polled, Ports, Say};
use crate::sim::computer_value;

/// One value of the simulated computer.
pub(super) struct SimulatedFile {
    value: Result<f32, DeviceFault>,
}

impl SimulatedFile {
    /// The value of `sensor`. A value that the simulated computer does not have is absent, as on a real
    /// computer.
    pub(super) fn of(sensor: &SensorPlan) -> SimulatedFile {
        let absent = DeviceFault::Kernel { fault: BusFault::Absent };
        SimulatedFile { value: computer_value(sensor).ok_or(absent) }
    }
}

impl Polled for SimulatedFile {
    fn set_up(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.value.map(drop)
    }

    fn poll(&mut self, _ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        say(0, self.value);
        self.value.map(drop)
    }
}
