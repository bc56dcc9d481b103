/* SPDX-License-Identifier: GPL-2.0 */
/* The interfaces between the parts of the module. `plant_lock` guards all of their state. */
#ifndef PLANT_H
#define PLANT_H
#include <linux/spinlock.h>
#include "hilplant.h"

#define PLANT_LINES 64			/* bits of a mask of lines */

/* Lines whose interrupts must be raised after the lock is released. */
struct fired {
	unsigned int line[PLANT_LINES];
	unsigned int count;
};

extern raw_spinlock_t plant_lock;

/* control.c; lock held. A timestamp of 0 means now. */
u32 plant_tell(u16 type, u16 addr, u16 reg, u16 len, int result, const u8 *data, u64 start, u64 end);

struct dev {
	bool used, mute;
	u16 addr;
	u32 flags;
	u8 ptr;
	u8 regs[256];
	u16 words[256];			/* HIL_WORDS, HIL_FRAME3 */
	u8 frame[3], held;		/* HIL_FRAME3: bytes of a frame so far */
	u8 answer[2], next;		/* HIL_FRAME3: the last conversion, index of the next byte read */
};

/* When a transfer began, when one of its messages ended, and how long a byte takes; ns. */
struct stamps {
	u64 start, end, byte_ns;
};

struct i2c_msg;

/* devices.c; lock held. */
struct dev *device_find(u16 addr);
bool fault_strikes(u16 addr, u16 kind, int *arg);		/* also counts down skip and count */
bool device_take(struct dev *dev, const u8 *bytes, int count, bool pointer, const struct stamps *when);	/* true: reported */
void device_give(struct dev *dev, u8 *bytes, int count, bool block);
void device_spoil(const struct i2c_msg *msg);
int device_obey(const struct hil_cmd *cmd);			/* -ENOSYS: not mine */

/* wire.c: the adapter. */
int wire_obey(const struct hil_cmd *cmd);			/* lock held; -ENOSYS: not mine */
bool wire_reply(const struct hil_cmd *cmd);			/* lock held; true: wake the reader afterwards */
void wire_wake(void);
int wire_init(void);
void wire_exit(void);

/* lines.c: the gpiochip. */
int lines_obey(const struct hil_cmd *cmd, struct fired *fired);	/* lock held; -ENOSYS: not mine */
void lines_fire(const struct fired *fired);			/* lock not held */
void lines_hold_sda(unsigned int clocks);			/* lock held; 0 releases */
bool lines_sda_held(void);					/* lock held */
void lines_pulse(u16 addr, u8 reg, bool on);			/* lock held: a register of a frame device has a pulse */
int lines_init(void);
void lines_exit(void);
#endif
