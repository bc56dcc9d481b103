//! What may overtake what between two transfers: stops go first, then polls that a line requests.

use super::*;

/// Two bytes, read in two transfers, so that a stop can come in between.
struct Pair(u8);

impl Polled for Pair {
    fn poll(&mut self, ports: &mut Ports<'_>, send: &mut Say<'_>) -> Result<(), DeviceFault> {
        let mut bytes = [[0], [0]];
        let mut read = Ok(());
        for byte in &mut bytes {
            read = read.and_then(|()| ports.i2c.read(self.0, byte).map_err(bus_fault(0)));
        }
        send(0, read.map(|()| f32::from(bytes[1][0])));
        read
    }
}

#[test]
fn stop_interrupts_a_poll_which_is_then_repeated() {
    let mut rig = rig_with(vec![plan(Box::new(Pair(0x40)), 0, 10)]);
    rig.settle(9);
    for prompted in [false, true] {
        // The halt comes during the first of the two transfers.
        rig.bus.during(1, halting(&rig.halt));
        if prompted {
            rig.data_ready.raise(0);
        }
        rig.stepper.run_until(rig.clock.now() + ms(2));
        assert_eq!(rig.wire_log(), [0x40, STOP, 0x40, 0x40], "prompted: {prompted}");
        assert_eq!(rig.readings(), [(0, Ok(100.0))], "and reported once");
        rig.settle(if prompted { 29 } else { 15 });
    }
    assert_eq!(rig.count(|c| &c.failures), 0);
    assert_eq!(rig.count(|c| &c.devices[0].failures), 0);
    assert_eq!(rig.count(|c| &c.set_ups), 1, "only the first");
}

#[test]
fn requested_poll_interrupts_a_due_poll_once() {
    let mut rig = rig_with(vec![
        plan(Box::new(Pair(0x40)), 0, 10),
        PollPlan { prompted: true, ..plan(Box::new(Byte(0x41)), 1, 100) },
    ]);
    rig.settle(9);
    // The line signals during the first transfer, and again during the first transfer of the repeated poll.
    let (bus, data_ready) = (rig.bus.clone(), rig.data_ready.clone());
    rig.bus.during(1, move |_| {
        data_ready.raise(1);
        bus.during(2, move |_| data_ready.raise(1));
    });
    rig.stepper.run_until(at(12));
    let log = rig.wire_log();
    assert_eq!(log[..2], [0x40, 0x41], "the requested poll waits for one transfer");
    assert_eq!(log[2..], [0x40, 0x40, 0x41], "then the other device gets its turn");
    assert_eq!(rig.count(|c| &c.failures), 0);
}

#[test]
fn stop_overtakes_the_rest_of_a_command() {
    let mut rig = rig(&[0x40]);
    rig.settle(14);
    rig.bus.during(1, halting(&rig.halt));
    rig.command(1, 14);
    rig.stepper.run_until(at(16));
    assert_eq!(rig.wire_log(), [WRITE, STOP], "one frame was already on the wire");
    rig.bus.fail_once(HAT, BusFault::Nack);
    rig.bus.during(1, halting(&rig.halt));
    rig.command(2, 16);
    rig.stepper.run_until(at(18));
    assert_eq!(rig.wire_log(), [WRITE, STOP], "no retry starts");
    assert_eq!(rig.count(|c| &c.failures), 0);
    let receipts: Vec<_> = std::iter::from_fn(|| rig.receipts.pop().ok()).collect();
    assert_eq!(receipts.iter().map(|r| (r.seq, r.complete)).collect::<Vec<_>>(), [(1, true), (2, false)]);
}

/// Motors with two frames per command.
struct TwoFrames(u32);

impl Actuators for TwoFrames {
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(INIT, ports)
    }
    fn write(&mut self, _: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        while self.0 < 2 {
            TwoWheels::send(WRITE, ports)?;
            self.0 += 1;
        }
        self.0 = 0;
        Ok(())
    }
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        TwoWheels::send(STOP, ports)
    }
}

#[test]
fn a_poll_runs_between_two_frames_of_a_command() {
    let asks = PollPlan { prompted: true, ..plan(Box::new(Byte(0x41)), 0, 100) };
    let mut rig = rig_of_motors(Box::new(TwoFrames(0)), vec![asks]);
    rig.settle(9);
    let data_ready = rig.data_ready.clone();
    rig.bus.during(1, move |_| data_ready.raise(0));
    rig.command(1, 9);
    rig.stepper.run_until(at(12));
    assert_eq!(rig.wire_log(), [WRITE, 0x41, WRITE]);
    assert!(rig.receipts.pop().is_ok_and(|receipt| receipt.seq == 1 && receipt.complete));
    assert!(rig.receipts.pop().is_err());
    assert_eq!((rig.count(|c| &c.written), rig.count(|c| &c.failures)), (1, 0));
}

/// Raises a halt.
fn halting(halt: &Arc<Halt>) -> impl FnOnce(Instant) + Send + 'static {
    let halt = halt.clone();
    move |now| halt.raise(Cause::EStop, now)
}

/// Two bytes, each reported as soon as it is read.
struct OneByOne(u8);

impl Polled for OneByOne {
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Byte(self.0).set_up(ports)
    }
    fn poll(&mut self, ports: &mut Ports<'_>, send: &mut Say<'_>) -> Result<(), DeviceFault> {
        Byte(self.0).poll(ports, send)?;
        Byte(self.0).poll(ports, &mut |_, value| send(1, value))
    }
}

#[test]
fn poll_stops_the_motors_before_its_remaining_reads() {
    let mut rig = rig_with(vec![PollPlan { channels: vec![0, 1], ..plan(Box::new(OneByOne(0x40)), 0, 10) }]);
    rig.settle(8);
    rig.bus.answer(40);
    rig.stepper.run_until(at(19));
    assert_eq!(rig.wire_log(), [0x40, STOP, 0x40, 0x40], "then the poll starts again");
    assert_eq!(rig.halt.counts().collect::<Vec<_>>(), [(Cause::Cliff, 1)]);
    assert_eq!(rig.count(|c| &c.failures), 0);
}
