//! What can go wrong with a transfer and with a reading: two small enums that fit into a frame.

/// What failed on a bus, as classified from errno or by the simulator. Small enough for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum BusFault {
    /// The device did not acknowledge (EREMOTEIO, ENXIO): unpowered, unplugged, wrong address.
    Nack,
    /// Another master won arbitration (EAGAIN): retry.
    ArbitrationLost,
    /// The transfer did not end within the adapter's timeout (ETIMEDOUT): SDA or SCL is held.
    TimedOut,
    /// The controller reported something else (EIO).
    Io,
    /// The adapter does not support the request (EOPNOTSUPP): a programming error.
    Unsupported,
    /// The bus, chip or line does not exist (ENOENT, ENODEV).
    Absent,
    /// Not started, because the motors have to be stopped first. Not a wire fault; start it again.
    Preempted,
}

/// Why a reading is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ReadingFault {
    /// The transfer failed.
    Bus(BusFault),
    /// No answer within the device's own timeout (a missing echo is a range reading, not a timeout).
    Timeout,
    /// Outside the physical range in the board file.
    OutOfRange,
    /// NaN or infinite.
    NotFinite,
    /// The value was bit-identical for longer than the board file allows.
    Frozen,
    /// The raw bytes were all 0x00 or all 0xFF, which the device cannot return.
    DeadBytes,
}
