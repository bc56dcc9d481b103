//! The report's lines about where the time of a cycle went, and about the link to a remote brain.

use crate::drive::trace::Latency;
use crate::field::remote::LinkCounters;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Each part with its figures; parts without a measurement are left out.
pub(super) fn parts<const N: usize>(
    names: [&'static str; N],
    histograms: &[Histogram<u64>; N],
) -> BTreeMap<&'static str, Latency> {
    let named = names.into_iter().zip(histograms);
    named.filter_map(|(name, histogram)| Some((name, Latency::of(histogram)?))).collect()
}

/// Prints the counters of the link.
pub(super) fn say_link(counters: &LinkCounters) {
    let LinkCounters { asked, missed, late, refused, unserved, connections, takeovers, returns } = *counters;
    say!(
        "  link       {asked} requests, {missed} cycles without an answer in time; answers: {late} late, {refused} refused, \
         {unserved} in which the brain could not compute"
    );
    say!(
        "             {connections} connections to the tether; {takeovers} takeovers by the local field, {returns} by the brain"
    );
}
