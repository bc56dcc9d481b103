//! Starting tables of the shipped boards.

use super::shipped;
use ganglion::deploy::board;

/// Width on the sensor's scale of -1 to 1 over which a drive curve may go from forwards to backwards. On the
/// PiCar-X's sonar it is 2.5 cm at 0.22 m, less than the car drives between two readings.
const JUMP: f32 = 0.05;

/// On a slope, a car that comes straight to an obstacle would stand where the curve is zero.
#[test]
fn no_car_that_backs_off_can_stand_before_an_obstacle() {
    let mut jumps = 0;
    for board in board::names().map(|name| shipped(name).board).filter(|board| board.backing.is_some()) {
        for curve in board.field.start.iter().filter(|curve| board.motors[curve.motor].kind.drives()) {
            for pair in curve.points.windows(2).filter(|pair| pair[0][1] * pair[1][1] < 0.0) {
                let width = pair[1][0] - pair[0][0];
                assert!(width <= JUMP, "{}: {width} from {:?}", board.name, pair);
                jumps += 1;
            }
        }
    }
    assert!(jumps > 2, "{jumps} curves were checked");
}
