//! What power monitors have in common: volts and amperes in, the quantities that are wanted out.

use super::{DeviceFault, Say};
use crate::plan::PowerQuantity;

/// Says every output of one measurement (volts, amperes), and returns its fault if it is one of the device.
pub(super) fn tell(
    outputs: &[PowerQuantity],
    measured: Result<[f32; 2], DeviceFault>,
    say: &mut Say<'_>,
) -> Result<(), DeviceFault> {
    for (nth, quantity) in outputs.iter().enumerate() {
        say(
            nth,
            measured.map(|[volts, amperes]| match quantity {
                PowerQuantity::Volts => volts,
                PowerQuantity::Amperes => amperes,
                PowerQuantity::Watts => volts * amperes,
            }),
        );
    }
    match measured {
        Err(fault) if fault.ends_poll() => Err(fault),
        _ => Ok(()),
    }
}
