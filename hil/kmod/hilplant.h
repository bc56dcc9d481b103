/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The protocol of /dev/hilplant, the far side of one I2C adapter and one gpiochip.
 *
 * write() takes an array of struct hil_cmd, which are applied in order under one lock, so that no transfer
 * and no edge falls between them. The first command that cannot be executed ends the processing: write()
 * fails with ENODEV (no device at this address), ENOSPC (a table is full) or EINVAL (invalid op, line or
 * length), and the commands before it stay in effect. read() returns struct hil_ev records, poll() reports
 * when there are some. A sleeping reader is woken at once for HE_REQ and for a line that this side, the
 * robot's, drives, and within 200 ms for everything else. Each open file has its own queue. All numbers are
 * little endian, like the processor.
 */
#ifndef HILPLANT_H
#define HILPLANT_H
#include <linux/types.h>

#define HIL_ANY 0xffff			/* a fault for every address */
#define HIL_DATA 32			/* data bytes in a command or an event */

/* hil_cmd.op; addr is an I2C address or a line's offset */
enum {
	HC_DEV_ADD = 1,			/* addr, arg = flags below: a device, its registers zero */
	HC_DEV_DEL = 2,			/* addr: no device answers there any more */
	HC_REG_SET = 3,			/* addr, reg, len, data: registers from reg on */
	HC_FAULT = 4,			/* addr or HIL_ANY, reg = kind, arg, count (-1: forever), len = number to skip */
	HC_FAULT_CLEAR = 5,		/* addr (0 or HIL_ANY: all), reg = kind (0: all) */
	HC_GPIO_SET = 6,		/* addr, arg = level of a line that this side does not drive */
	HC_GPIO_AT = 7,			/* the same at `at`, CLOCK_MONOTONIC ns, from a hard interrupt */
	HC_BUS_HZ = 8,			/* arg: clock of the bus; 0: transfers take no time */
	HC_REPLY = 9,			/* at = seq of HE_REQ, data, arg < 0: fail with that errno */
	HC_QUAD = 10,			/* addr = line A, reg = line B << 8 | slot 0..3, arg = +-ns per edge (0 stops), count */
	HC_DEV_RESET = 11,		/* addr: frames, pulses, timers, pointer as after power on; byte table stays */
	HC_DEV_MUTE = 12,		/* addr, arg 1/0: does not acknowledge (no power, held in reset) */
	HC_BUS_PINS = 13,		/* addr = line that is SCL, reg = line that is SDA; both are pulled high */
	HC_GPIO_PULL = 14,		/* addr, arg 1/0: level of the line while it is not driven; all start low */
	HC_WIRE = 15,			/* addr = line that follows, reg = line it is wired to; HIL_ANY: no wire */
	HC_TERMINAL = 16,		/* addr = line, reg = I2C address | register << 8: high while that frame register of
					 * a HIL_FRAME3 is not 0, like a motor's terminal; 0: no wire. Only one exists. */
	HC_PERSIST = 17,		/* arg 1/0: an output whose owner has gone stays one, or becomes an input */
	HC_BOOT = 18,			/* outputs without an owner become inputs, as when the computer starts */
};

/* HC_DEV_ADD arg. Without flags: 256 bytes behind an auto-incrementing pointer. */
enum {
	HIL_FWD = 1,			/* reads are forwarded: HE_REQ asks, HC_REPLY answers within the adapter's timeout */
	/*
	 * The Robot HAT's controller. Written bytes are taken in frames of three [register, MSB, LSB] across
	 * transfers: a broken frame shifts all that follow, until HC_DEV_RESET. A frame for 0x10..0x17
	 * converts: that converter's value becomes the answer, which plain reads return byte by byte, MSB first,
	 * repeatedly. Other frames are stored and reported (HE_WRITE). A write of one byte with a read in the
	 * same transfer is a block read of the byte table and not part of a frame. HC_REG_SET with reg
	 * 0x10..0x17 and len 2 sets a converter (big endian), anything else the byte table.
	 */
	HIL_FRAME3 = 2,
	/* Registers of 16 bits, MSB first, behind a fixed pointer (INA219, INA226, ADS1115). HC_REG_SET: len even. */
	HIL_WORDS = 4,
};

/* HC_FAULT reg. HF_STUCK hits a whole transfer: the address is that of its first message. */
enum {
	HF_NACK_ADDR = 1,		/* ENXIO */
	HF_NACK_DATA = 2,		/* EIO after arg bytes of a write */
	HF_STUCK = 3,			/* ETIMEDOUT after arg ms, or (arg 0) the adapter's timeout (I2C_TIMEOUT ioctl) */
	HF_ARB_LOST = 4,		/* EAGAIN within a write, after arg bytes of it, which the device keeps */
	HF_DELAY_US = 5,		/* the clock is stretched by arg us */
	HF_XOR = 6,			/* byte arg >> 8 of a read is XORed with arg & 255 */
	HF_ALL_FF = 7,			/* a read returns only 0xff */
	HF_FREEZE = 8,			/* HC_REG_SET succeeds without effect: stale registers */
	HF_SDA_LOW = 9,			/* every transfer is stuck, SDA low, until arg (0: nine) rising edges on SCL */
	HF_REBIND = 10,			/* every transfer is stuck until the driver is rebound */
};

/* hil_ev.type */
enum {
	HE_WRITE = 1,			/* a message, or a whole frame of HIL_FRAME3: reg = first byte = data[0] */
	HE_READ = 2,			/* a message: reg = pointer it began at */
	HE_REQ = 3,			/* a forwarded read waits for HC_REPLY */
	HE_GPIO_OUT = 4,		/* a line was driven: len = level */
	HE_GPIO_DIR = 5,		/* len 1: driven from now on; 0: released, or its owner is gone: reg = level now */
	HE_GPIO_IN = 6,			/* a line that is not driven changed: len = level */
	HE_OVERFLOW = 7,		/* len (at most 65535) events before this one were lost */
	HE_CONVERT = 8,			/* HIL_FRAME3: reg = converter, data = its value, MSB first */
	HE_PARTIAL = 9,			/* HIL_FRAME3: a write ended within a frame: len = bytes held (in data) */
};

struct hil_cmd {
	__u16 op, addr, reg, len;
	__s32 arg, count;
	__u64 at;
	__u8 data[HIL_DATA];
};

/*
 * Transfers: t0 = first bit, ts = this message's (or frame's) last bit, by the clock of the bus. They take
 * effect and are reported at the end of the transfer, so a record may be queued after those of edges
 * with later timestamps. result = 0 or -errno; on failure, data is what the master intended to write.
 * Lines: ts = t0 = when it happened. All timestamps: CLOCK_MONOTONIC, ns.
 */
struct hil_ev {
	__u64 ts, t0;
	__u32 seq;
	__s32 result;
	__u16 type, addr, len, reg;
	__u8 data[HIL_DATA];
};
#endif
