//! Robot states and their named transitions.
