//! What can be wrong with a transfer, and with a reading: two small words that a frame keeps, whoever found it.

/// What failed on a bus, as classified from errno or by the simulator. Small enough for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusFault {
    /// The device did not acknowledge (EREMOTEIO, ENXIO): unpowered, unplugged, wrong address.
    Nack,
    /// Another master won (EAGAIN): try again.
    ArbitrationLost,
    /// The transfer did not end in the adapter's time (ETIMEDOUT): SDA or SCL held.
    TimedOut,
    /// The controller reported something else (EIO).
    Io,
    /// The adapter cannot do what was asked (EOPNOTSUPP): a programmer's error.
    Unsupported,
    /// The bus, chip or line is not there (ENOENT, ENODEV).
    Absent,
    /// Not begun, because the motors have to be stopped first: no fault of any wire. To be begun anew.
    Preempted,
}

/// Why a reading is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingFault {
    /// The transfer failed.
    Bus(BusFault),
    /// No answer within the device's own time (an echo that never came back is a range, not this).
    Timeout,
    /// Outside the physical range that the board file states.
    OutOfRange,
    /// NaN or infinite.
    NotFinite,
    /// Bit-identical for longer than the board file allows.
    Frozen,
    /// Raw bytes all 0x00 or all 0xFF where the device cannot mean it.
    DeadBytes,
}
