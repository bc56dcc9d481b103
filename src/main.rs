//! Arguments to one verb, and the verb's outcome to an exit code.

fn main() {}
