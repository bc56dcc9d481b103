//! Common to all power monitors: volts and amperes in, the requested quantities out.

use super::{DeviceFault, Say};
use crate::base::plan::PowerQuantity;

/// Reports every output of one measurement (volts, amperes), and also returns its fault if that ends the
/// poll.
pub(super) fn report(
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
