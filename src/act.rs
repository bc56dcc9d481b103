//! Arbitrate, clamp, slew: from mode, reflex and field result to one command. Pure.
