//! A co-processor on the I2C bus that serves the lean of the car, in degrees, as a little-endian float from a
//! register. A one-byte write selects the register; reads continue from there.

/// One such device.
#[derive(Clone, Debug)]
pub struct CoProcessor {
    address: u8,
    register: u8,
    pointer: u8,
}

impl CoProcessor {
    /// A device at `address` whose float starts at `register`.
    pub fn new(address: u8, register: u8) -> CoProcessor {
        CoProcessor { address, register, pointer: 0 }
    }
    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Takes one written byte.
    pub fn take(&mut self, byte: u8) {
        self.pointer = byte;
    }
    /// The next byte to read while the quantity is `value`; nonexistent registers read as zero.
    pub fn give(&mut self, value: f32) -> u8 {
        let offset = usize::from(self.pointer.wrapping_sub(self.register));
        self.pointer = self.pointer.wrapping_add(1);
        value.to_le_bytes().get(offset).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_reads_follow_the_pointer() {
        let mut device = CoProcessor::new(0x60, 0x10);
        device.take(0x10);
        let bytes = [0; 5].map(|_: u8| device.give(-10.0));
        assert_eq!(bytes, [0x00, 0x00, 0x20, 0xC1, 0x00]);
        device.take(0x00);
        assert_eq!(device.give(-10.0), 0);
    }
}
