// SPDX-License-Identifier: GPL-2.0
/*
 * The I2C adapter of the plant. A transfer is planned when it starts (which device answers, which fault
 * applies, how long its bits take), sleeps for as long as the wire would be busy, and takes effect at its end,
 * when its bits have arrived. The adapter is a platform device, hilplant.0, that can be
 * unbound and bound through sysfs. As with every adapter, unbinding waits (without limit) until no process has
 * /dev/i2c-N open.
 */
#include <linux/hrtimer.h>
#include <linux/i2c.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/wait.h>
#include "plant.h"

static int bus_hz = 400000;		/* fast mode; 0: transfers take no time */
module_param(bus_hz, int, 0644);
static int timeout_ms = 50;		/* the adapter's timeout, unless I2C_TIMEOUT sets another */
module_param(timeout_ms, int, 0644);

#define MESSAGES 42			/* i2c-dev passes no more (I2C_RDWR_IOCTL_MAX_MSGS) */
#define STOP_BITS 2			/* the stop, and the required pause after it */
#define ADDRESS_BITS 10			/* start, seven bits, direction, acknowledge */
#define BYTE_BITS 9
#define CLOCKS 9			/* a device that holds SDA releases it within a byte and its acknowledge */

/* The transfer on the wire; the adapter's own lock ensures that there is only one. */
static struct {
	u64 start, end[MESSAGES];	/* ns */
	int whole;			/* messages that succeed */
	int err;			/* why the next message fails */
	int acked;			/* bytes of that message that were acknowledged */
} wire;

static bool must_rebind;
static DECLARE_WAIT_QUEUE_HEAD(repliers);
static u32 wanted_reply;
static bool have_reply;
static struct hil_cmd reply;
static struct platform_device *device;

static u64 byte_ns(void)
{
	return bus_hz > 0 ? div_u64(BYTE_BITS * NSEC_PER_SEC, bus_hz) : 0;
}

/* ---- the plan ---- */

/* Jiffies for which the bus is stuck; 0: it is not. */
static long seized(const struct i2c_adapter *adap, u16 addr)
{
	int arg;

	if (must_rebind || lines_sda_held())
		return max(adap->timeout, 1);
	if (fault_strikes(addr, HF_STUCK, &arg))
		return max_t(long, arg > 0 ? msecs_to_jiffies(arg) : adap->timeout, 1);
	return 0;
}

static int plan_message(struct i2c_msg *msg, u64 *bits, u64 *stretch_us)
{
	struct dev *dev = device_find(msg->addr);
	int arg;

	*bits += ADDRESS_BITS;
	if (!(msg->flags & I2C_M_RD) && fault_strikes(msg->addr, HF_ARB_LOST, &arg)) {
		wire.acked = clamp_t(int, arg, 0, msg->len);
		*bits += BYTE_BITS * wire.acked;
		return -EAGAIN;
	}
	if (!dev || dev->mute || fault_strikes(msg->addr, HF_NACK_ADDR, &arg))
		return -ENXIO;
	if (fault_strikes(msg->addr, HF_DELAY_US, &arg))
		*stretch_us += max(arg, 0);
	if (!(msg->flags & I2C_M_RD) && fault_strikes(msg->addr, HF_NACK_DATA, &arg) && arg < msg->len) {
		wire.acked = max(arg, 0);
		*bits += BYTE_BITS * (wire.acked + 1);
		return -EIO;
	}
	*bits += BYTE_BITS * msg->len;
	return 0;
}

static void plan(struct i2c_msg *msgs, int count)
{
	u64 bits = 0, stretch_us = 0;

	wire.acked = 0;
	wire.err = 0;
	for (wire.whole = 0; wire.whole < count; wire.whole++) {
		wire.err = plan_message(&msgs[wire.whole], &bits, &stretch_us);
		wire.end[wire.whole] = wire.start + stretch_us * 1000;
		if (bus_hz > 0)
			wire.end[wire.whole] += div_u64(bits * NSEC_PER_SEC, bus_hz);
		if (wire.err)
			return;
	}
}

/* ---- what arrives ---- */

/* Asks the plant's process. Releases the lock meanwhile, so the device may have been replaced on return. */
static int give_forwarded(struct i2c_adapter *adap, struct i2c_msg *msg, u8 ptr, unsigned long *flags)
{
	long left;

	have_reply = false;
	wanted_reply = plant_tell(HE_REQ, msg->addr, ptr, msg->len, 0, NULL, wire.start, 0);
	raw_spin_unlock_irqrestore(&plant_lock, *flags);
	left = wait_event_timeout(repliers, READ_ONCE(have_reply), adap->timeout);
	raw_spin_lock_irqsave(&plant_lock, *flags);
	wanted_reply = 0;
	if (!left && !have_reply)
		return -ETIMEDOUT;
	if (reply.arg < 0)
		return max(reply.arg, -MAX_ERRNO);
	memset(msg->buf, 0, msg->len);
	memcpy(msg->buf, reply.data, min_t(int, msg->len, HIL_DATA));
	return 0;
}

static int deliver(struct i2c_adapter *adap, struct i2c_msg *msgs, int nth, int count, unsigned long *flags)
{
	struct i2c_msg *msg = &msgs[nth];
	struct dev *dev = device_find(msg->addr);
	struct i2c_msg *after = nth + 1 < count ? &msgs[nth + 1] : NULL;
	bool block = nth && msgs[nth - 1].addr == msg->addr && msgs[nth - 1].len == 1 &&
		     !(msgs[nth - 1].flags & I2C_M_RD);
	struct stamps when = { wire.start, wire.end[nth], byte_ns() };
	u8 ptr;
	int err = 0;

	if (!dev)			/* removed while the bits were on the wire */
		return -ENXIO;
	ptr = dev->ptr;
	if (!(msg->flags & I2C_M_RD)) {
		bool pointer = msg->len == 1 && after && after->flags & I2C_M_RD && after->addr == msg->addr;

		if (device_take(dev, msg->buf, msg->len, pointer, &when))
			return 0;
		plant_tell(HE_WRITE, msg->addr, msg->len ? msg->buf[0] : ptr, msg->len, 0, msg->buf, when.start, when.end);
		return 0;
	}
	if (dev->flags & HIL_FWD) {
		err = give_forwarded(adap, msg, ptr, flags);
		when.end = ktime_get_ns();
	} else {
		device_give(dev, msg->buf, msg->len, block);
	}
	if (!err)
		device_spoil(msg);
	plant_tell(HE_READ, msg->addr, ptr, msg->len, err, err ? NULL : msg->buf, when.start, when.end);
	return err;
}

static void tell_failed(const struct i2c_msg *msg, int err, u64 end)
{
	bool read = msg->flags & I2C_M_RD;
	const u8 *data = read ? NULL : msg->buf;

	plant_tell(read ? HE_READ : HE_WRITE, msg->addr, data && msg->len ? data[0] : 0, msg->len, err, data,
		   wire.start, end);
}

/* The failed message may have delivered bytes before it failed. */
static void deliver_broken(const struct i2c_msg *msg)
{
	struct dev *dev = device_find(msg->addr);
	struct stamps when = { wire.start, wire.end[wire.whole], byte_ns() };

	if (dev && wire.acked)
		device_take(dev, msg->buf, wire.acked, false, &when);
	tell_failed(msg, wire.err, when.end);
}

/* ---- the adapter ---- */

static void sleep_until(u64 ns)
{
	ktime_t until = ns_to_ktime(ns);

	while (ktime_get_ns() < ns) {
		set_current_state(TASK_UNINTERRUPTIBLE);	/* a signal does not end a transfer */
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	}
}

static int transfer(struct i2c_adapter *adap, struct i2c_msg *msgs, int count)
{
	unsigned long flags;
	long stuck;
	u64 over;
	int err = 0;

	wire.start = ktime_get_ns();
	raw_spin_lock_irqsave(&plant_lock, flags);
	stuck = seized(adap, msgs[0].addr);
	if (!stuck)
		plan(msgs, count);
	raw_spin_unlock_irqrestore(&plant_lock, flags);

	if (stuck) {
		schedule_timeout_uninterruptible(stuck);
		raw_spin_lock_irqsave(&plant_lock, flags);
		tell_failed(&msgs[0], -ETIMEDOUT, 0);
		raw_spin_unlock_irqrestore(&plant_lock, flags);
		return -ETIMEDOUT;
	}
	over = wire.end[wire.err ? wire.whole : count - 1];
	if (bus_hz > 0)
		over += div_u64(STOP_BITS * NSEC_PER_SEC, bus_hz);
	sleep_until(over);

	raw_spin_lock_irqsave(&plant_lock, flags);
	for (int i = 0; i < wire.whole && !err; i++)
		err = deliver(adap, msgs, i, count, &flags);
	if (!err && wire.err) {
		deliver_broken(&msgs[wire.whole]);
		err = wire.err;
	}
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	return err ? err : count;
}

static u32 functionality(struct i2c_adapter *adap)
{
	return I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
}

static const struct i2c_algorithm algorithm = { .master_xfer = transfer, .functionality = functionality };
static const struct i2c_adapter_quirks quirks = { .max_num_msgs = MESSAGES };
static struct i2c_adapter adapter = {
	.owner = THIS_MODULE, .algo = &algorithm, .quirks = &quirks, .name = "hilplant i2c", .nr = 1,
};

static int wire_probe(struct platform_device *pdev)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	must_rebind = false;
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	adapter.dev.parent = &pdev->dev;
	adapter.timeout = msecs_to_jiffies(timeout_ms);
	return i2c_add_numbered_adapter(&adapter);
}

static void wire_remove(struct platform_device *pdev)
{
	i2c_del_adapter(&adapter);
}

static struct platform_driver driver = {
	.driver = { .name = "hilplant" },
	.probe = wire_probe,
	.remove = wire_remove,
};

int wire_init(void)
{
	int err = platform_driver_register(&driver);

	if (err)
		return err;
	device = platform_device_register_simple("hilplant", 0, NULL, 0);
	if (IS_ERR(device)) {
		platform_driver_unregister(&driver);
		return PTR_ERR(device);
	}
	return 0;
}

void wire_exit(void)
{
	platform_device_unregister(device);
	platform_driver_unregister(&driver);
}

/* ---- the far side ---- */

bool wire_reply(const struct hil_cmd *cmd)
{
	if (!wanted_reply || cmd->at != wanted_reply)
		return false;		/* too late: the reader has given up */
	reply = *cmd;
	have_reply = true;
	return true;
}

void wire_wake(void)
{
	wake_up_all(&repliers);
}

int wire_obey(const struct hil_cmd *cmd)
{
	bool all = cmd->op == HC_FAULT_CLEAR && (!cmd->addr || cmd->addr == HIL_ANY);

	if (cmd->op == HC_BUS_HZ) {
		bus_hz = cmd->arg;
		return 0;
	}
	if (cmd->op == HC_FAULT && cmd->reg == HF_SDA_LOW) {
		lines_hold_sda(cmd->arg > 0 ? cmd->arg : CLOCKS);
		return 0;
	}
	if (cmd->op == HC_FAULT && cmd->reg == HF_REBIND) {
		must_rebind = true;
		return 0;
	}
	if (all && (!cmd->reg || cmd->reg == HF_SDA_LOW))
		lines_hold_sda(0);
	if (all && (!cmd->reg || cmd->reg == HF_REBIND))
		must_rebind = false;
	return device_obey(cmd);
}
