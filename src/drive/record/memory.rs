//! A recording in memory, for tests.

use super::Medium;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Bytes that a test can read while a recorder owns a clone, which shares them.
#[derive(Clone, Default)]
pub struct Memory(pub Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for Memory {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
