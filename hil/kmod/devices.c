// SPDX-License-Identifier: GPL-2.0
/*
 * The devices behind the adapter: their registers, what they do with bytes, and their faults. All times
 * come from the stamps that callers pass in. Everything here is called with plant_lock held.
 */
#include <linux/i2c.h>
#include <linux/module.h>
#include "plant.h"

#define DEVICES 16
#define FAULTS 16
#define CONVERTER(reg) ((reg) >= 0x10 && (reg) <= 0x17)

struct fault {
	bool used;
	u16 addr, kind;
	int skip, count, arg;
};

static struct dev devs[DEVICES];
static struct fault faults[FAULTS];
struct dev *device_find(u16 addr)
{
	for (int i = 0; i < DEVICES; i++)
		if (devs[i].used && devs[i].addr == addr)
			return &devs[i];
	return NULL;
}

bool fault_strikes(u16 addr, u16 kind, int *arg)
{
	for (int i = 0; i < FAULTS; i++) {
		struct fault *fault = &faults[i];

		if (!fault->used || fault->kind != kind || (fault->addr != HIL_ANY && fault->addr != addr))
			continue;
		if (fault->skip > 0) {
			fault->skip--;
			continue;
		}
		if (fault->count > 0 && --fault->count == 0)
			fault->used = false;
		*arg = fault->arg;
		return true;
	}
	return false;
}

static void take_frame(struct dev *dev, u64 start, u64 end)
{
	u8 reg = dev->frame[0];

	if (CONVERTER(reg)) {
		dev->answer[0] = dev->words[reg] >> 8;
		dev->answer[1] = dev->words[reg];
		dev->next = 0;
		plant_tell(HE_CONVERT, dev->addr, reg, 2, 0, dev->answer, start, end);
	} else {
		dev->words[reg] = dev->frame[1] << 8 | dev->frame[2];
		lines_pulse(dev->addr, reg, dev->words[reg]);
		plant_tell(HE_WRITE, dev->addr, reg, 3, 0, dev->frame, start, end);
	}
}

static void take_frames(struct dev *dev, const u8 *bytes, int count, const struct stamps *when)
{
	for (int i = 0; i < count; i++) {
		dev->frame[dev->held++] = bytes[i];
		if (dev->held < sizeof(dev->frame))
			continue;
		dev->held = 0;
		take_frame(dev, when->start, when->end - (count - 1 - i) * when->byte_ns);
	}
	if (dev->held)
		plant_tell(HE_PARTIAL, dev->addr, 0, dev->held, 0, dev->frame, when->start, when->end);
}

static void take_registers(struct dev *dev, const u8 *bytes, int count)
{
	if (!count)
		return;
	dev->ptr = bytes[0];
	if (dev->flags & HIL_WORDS) {
		if (count >= 3)
			dev->words[dev->ptr] = bytes[1] << 8 | bytes[2];
		return;
	}
	for (int i = 1; i < count; i++)
		dev->regs[dev->ptr++] = bytes[i];
}

bool device_take(struct dev *dev, const u8 *bytes, int count, bool pointer, const struct stamps *when)
{
	if (dev->flags & HIL_FRAME3 && !pointer) {
		take_frames(dev, bytes, count, when);
		return true;
	}
	take_registers(dev, bytes, count);
	return false;
}

void device_give(struct dev *dev, u8 *bytes, int count, bool block)
{
	for (int i = 0; i < count; i++) {
		if (dev->flags & HIL_FRAME3 && !block) {
			bytes[i] = dev->answer[dev->next];
			dev->next ^= 1;
		} else if (dev->flags & HIL_WORDS) {
			bytes[i] = i & 1 ? dev->words[dev->ptr] : dev->words[dev->ptr] >> 8;
		} else {
			bytes[i] = dev->regs[dev->ptr++];
		}
	}
}

void device_spoil(const struct i2c_msg *msg)
{
	int arg;

	if (!msg->len)
		return;
	if (fault_strikes(msg->addr, HF_XOR, &arg))
		msg->buf[((arg >> 8) & 0xffff) % msg->len] ^= arg;
	if (fault_strikes(msg->addr, HF_ALL_FF, &arg))
		memset(msg->buf, 0xff, msg->len);
}

/* ---- the far side ---- */

static int add_device(const struct hil_cmd *cmd)
{
	struct dev *dev = device_find(cmd->addr);

	for (int i = 0; !dev && i < DEVICES; i++)
		if (!devs[i].used)
			dev = &devs[i];
	if (!dev)
		return -ENOSPC;
	*dev = (struct dev){ .used = true, .addr = cmd->addr, .flags = cmd->arg };
	return 0;
}

static int set_registers(struct dev *dev, const struct hil_cmd *cmd)
{
	bool words = dev->flags & HIL_WORDS || (dev->flags & HIL_FRAME3 && CONVERTER(cmd->reg));
	int arg;

	if (cmd->len > HIL_DATA || (words && cmd->len & 1))
		return -EINVAL;
	if (fault_strikes(cmd->addr, HF_FREEZE, &arg))
		return 0;
	for (int i = 0; i < cmd->len; i++) {
		if (!words)
			dev->regs[(cmd->reg + i) & 255] = cmd->data[i];
		else if (i & 1)
			dev->words[(cmd->reg + i / 2) & 255] = cmd->data[i - 1] << 8 | cmd->data[i];
	}
	return 0;
}

/* As after power on, except for measured values and factory settings. */
static void reset_device(struct dev *dev)
{
	dev->ptr = dev->held = dev->next = 0;
	memset(dev->answer, 0, sizeof(dev->answer));
	for (int reg = 0; dev->flags & HIL_FRAME3 && reg < 256; reg++) {
		if (CONVERTER(reg))
			continue;
		dev->words[reg] = 0;
		lines_pulse(dev->addr, reg, false);
	}
}

static int add_fault(const struct hil_cmd *cmd)
{
	if (cmd->reg < HF_NACK_ADDR || cmd->reg > HF_REBIND)
		return -EINVAL;
	if (!cmd->count)
		return 0;
	for (int i = 0; i < FAULTS; i++) {
		if (faults[i].used)
			continue;
		faults[i] = (struct fault){ true, cmd->addr, cmd->reg, cmd->len, cmd->count, cmd->arg };
		return 0;
	}
	return -ENOSPC;
}

static void clear_faults(const struct hil_cmd *cmd)
{
	bool everywhere = !cmd->addr || cmd->addr == HIL_ANY;

	for (int i = 0; i < FAULTS; i++)
		if ((everywhere || faults[i].addr == cmd->addr) && (!cmd->reg || faults[i].kind == cmd->reg))
			faults[i].used = false;
}

int device_obey(const struct hil_cmd *cmd)
{
	struct dev *dev = device_find(cmd->addr);

	switch (cmd->op) {
	case HC_DEV_ADD:
		return add_device(cmd);
	case HC_FAULT:
		return add_fault(cmd);
	case HC_FAULT_CLEAR:
		clear_faults(cmd);
		return 0;
	case HC_DEV_DEL:
	case HC_REG_SET:
	case HC_DEV_RESET:
	case HC_DEV_MUTE:
		break;
	default:
		return -ENOSYS;
	}
	if (!dev)
		return -ENODEV;
	switch (cmd->op) {
	case HC_DEV_DEL:
		dev->used = false;
		return 0;
	case HC_REG_SET:
		return set_registers(dev, cmd);
	case HC_DEV_RESET:
		reset_device(dev);
		return 0;
	default:
		dev->mute = cmd->arg;
		return 0;
	}
}
