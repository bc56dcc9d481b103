// SPDX-License-Identifier: GPL-2.0
/*
 * A plant for hardware-in-the-loop tests: one I2C adapter and one gpiochip whose far side is
 * /dev/hilplant. This source file implements that device: commands in, events out. wire.c is the adapter,
 * devices.c the devices behind it, lines.c the gpiochip.
 */
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kfifo.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include "plant.h"

#define QUEUE 32768			/* events that a reader may fall behind: some 30 s of a busy robot */
#define LATEST (200 * NSEC_PER_MSEC)	/* wake-up delay for events that need no answer; the far side polls sooner */
#define MOST_COMMANDS 512		/* in one write: limits how long interrupts are off */

struct opener {
	struct list_head others;
	struct mutex reading;		/* threads may share one open file */
	unsigned int lost;
	DECLARE_KFIFO(queue, struct hil_ev, QUEUE);
};

static_assert(sizeof(struct hil_cmd) == 56);
static_assert(sizeof(struct hil_ev) == 64);

DEFINE_RAW_SPINLOCK(plant_lock);
static LIST_HEAD(openers);
static DECLARE_WAIT_QUEUE_HEAD(readers);
static struct irq_work wake;		/* the holder of plant_lock must not take the readers' lock */
static struct hrtimer later;		/* delays wake-ups: one per event would be a third of the guest's work */
static u32 sequence;

static void wake_readers(struct irq_work *work)
{
	wake_up_interruptible_all(&readers);
}

static enum hrtimer_restart wake_later(struct hrtimer *expired)
{
	irq_work_queue(&wake);
	return HRTIMER_NORESTART;
}

/* Events that may need an answer within microseconds: a request, or a line that the robot drives. */
static bool is_prompt(u16 type)
{
	return type == HE_REQ || type == HE_GPIO_OUT || type == HE_GPIO_DIR;
}

static void put(struct opener *opener, const struct hil_ev *event)
{
	if (opener->lost && kfifo_avail(&opener->queue) >= 2) {
		struct hil_ev gap = { .ts = event->ts, .t0 = event->ts, .seq = event->seq, .type = HE_OVERFLOW,
				      .len = min_t(unsigned int, opener->lost, U16_MAX) };

		kfifo_put(&opener->queue, gap);
		opener->lost = 0;
	}
	if (opener->lost || !kfifo_put(&opener->queue, *event))
		opener->lost++;
}

u32 plant_tell(u16 type, u16 addr, u16 reg, u16 len, int result, const u8 *data, u64 start, u64 end)
{
	struct hil_ev event = { .ts = end ? end : ktime_get_ns(), .seq = ++sequence, .result = result,
				.type = type, .addr = addr, .len = len, .reg = reg };
	struct opener *opener;

	event.t0 = start ? start : event.ts;
	if (data)
		memcpy(event.data, data, min_t(int, len, HIL_DATA));
	list_for_each_entry(opener, &openers, others)
		put(opener, &event);
	if (is_prompt(type))
		irq_work_queue(&wake);
	else if (!hrtimer_is_queued(&later))
		hrtimer_start(&later, ns_to_ktime(LATEST), HRTIMER_MODE_REL_HARD);
	return event.seq;
}

static ssize_t plant_write(struct file *file, const char __user *from, size_t bytes, loff_t *offset)
{
	size_t count = bytes / sizeof(struct hil_cmd);
	struct fired fired = { .count = 0 };
	bool replied = false;
	struct hil_cmd *cmds;
	unsigned long flags;
	int err = 0;

	if (!count || count > MOST_COMMANDS || bytes % sizeof(*cmds))
		return -EINVAL;
	cmds = memdup_user(from, bytes);
	if (IS_ERR(cmds))
		return PTR_ERR(cmds);
	raw_spin_lock_irqsave(&plant_lock, flags);
	for (size_t i = 0; i < count && !err; i++) {
		if (cmds[i].op == HC_REPLY) {
			replied |= wire_reply(&cmds[i]);
			continue;
		}
		err = wire_obey(&cmds[i]);
		if (err == -ENOSYS)
			err = lines_obey(&cmds[i], &fired);
	}
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	if (replied)
		wire_wake();
	lines_fire(&fired);
	kfree(cmds);
	if (err == -ENOSYS)
		err = -EINVAL;
	return err ? err : bytes;
}

static ssize_t plant_read(struct file *file, char __user *to, size_t bytes, loff_t *offset)
{
	struct opener *opener = file->private_data;
	unsigned int copied;
	int err;

	if (bytes < sizeof(struct hil_ev))
		return -EINVAL;
	do {
		if (kfifo_is_empty(&opener->queue)) {
			if (file->f_flags & O_NONBLOCK)
				return -EAGAIN;
			err = wait_event_interruptible(readers, !kfifo_is_empty(&opener->queue));
			if (err)
				return err;
		}
		if (mutex_lock_interruptible(&opener->reading))
			return -ERESTARTSYS;
		err = kfifo_to_user(&opener->queue, to, bytes, &copied);
		mutex_unlock(&opener->reading);
	} while (!err && !copied);	/* another thread was quicker */
	return err ? err : copied;
}

static __poll_t plant_poll(struct file *file, poll_table *table)
{
	struct opener *opener = file->private_data;

	poll_wait(file, &readers, table);
	return EPOLLOUT | EPOLLWRNORM | (kfifo_is_empty(&opener->queue) ? 0 : EPOLLIN | EPOLLRDNORM);
}

static int plant_open(struct inode *inode, struct file *file)
{
	struct opener *opener = kvzalloc(sizeof(*opener), GFP_KERNEL);
	unsigned long flags;

	if (!opener)
		return -ENOMEM;
	INIT_KFIFO(opener->queue);
	mutex_init(&opener->reading);
	raw_spin_lock_irqsave(&plant_lock, flags);
	list_add(&opener->others, &openers);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	file->private_data = opener;
	return 0;
}

static int plant_release(struct inode *inode, struct file *file)
{
	struct opener *opener = file->private_data;
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	list_del(&opener->others);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	kvfree(opener);
	return 0;
}

static const struct file_operations plant_fops = {
	.owner = THIS_MODULE,
	.open = plant_open,
	.release = plant_release,
	.read = plant_read,
	.write = plant_write,
	.poll = plant_poll,
};

static struct miscdevice plant_file = { .minor = MISC_DYNAMIC_MINOR, .name = "hilplant", .fops = &plant_fops };

static int __init plant_init(void)
{
	int err;

	wake = IRQ_WORK_INIT(wake_readers);
	hrtimer_init(&later, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	later.function = wake_later;
	err = lines_init();
	if (err)
		return err;
	err = wire_init();
	if (err)
		goto no_wire;
	err = misc_register(&plant_file);
	if (!err)
		return 0;
	wire_exit();
no_wire:
	lines_exit();
	return err;
}

static void __exit plant_exit(void)
{
	misc_deregister(&plant_file);
	wire_exit();
	lines_exit();
	hrtimer_cancel(&later);
	irq_work_sync(&wake);
}

module_init(plant_init);
module_exit(plant_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("plant for hardware-in-the-loop tests: an I2C adapter and a gpiochip");
