// SPDX-License-Identifier: GPL-2.0
/*
 * The gpiochip of the plant. Edges from the far side arrive from a hard interrupt at a given time, like those
 * of a real pin; lines that this side (the robot's) drives are reported with a timestamp; a line that is not
 * driven takes the level of its pull. An output whose owner has gone stays as it was, as with the pin
 * controllers of Raspberry Pi OS (rp1_pmx_free and bcm2835_pmx_free of raspberrypi/linux; persist_gpio_outputs
 * has the name of their parameter), or becomes an input. SCL is watched, so that nine clocks can free a held
 * SDA.
 */
#include <linux/gpio/driver.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include "plant.h"

static int ngpio = 32;
module_param(ngpio, int, 0444);
static bool persist_gpio_outputs = true;	/* as on Raspberry Pi OS; off in mainline Linux, absent on other chips */
module_param(persist_gpio_outputs, bool, 0644);

#define WAITING 256			/* edges that are due later: as many as a second of a busy encoder */
#define ENCODERS 4
#define NO_LINE PLANT_LINES

struct edge {
	u64 at;
	u16 line;
	bool level;
};

struct encoder {
	bool on;
	u16 a, b;
	s64 period;			/* ns per edge; its sign is the direction */
	int left;			/* edges, 0: forever */
	u8 phase;
	u64 next;
};

static struct platform_device *parent;
static struct gpio_chip chip;
static struct hrtimer timer;
static u64 level, driven, owned, pull, irq_on;
static u8 irq_type[PLANT_LINES];
static struct edge edges[WAITING];	/* soonest first */
static unsigned int waiting;
static struct encoder encoders[ENCODERS];
static unsigned int scl = NO_LINE, sda = NO_LINE, clocks_to_free;
static u8 follower[PLANT_LINES];	/* the line at the other end of a wire, or NO_LINE */
static unsigned int terminal = NO_LINE, terminal_reg;
static char names[PLANT_LINES][8];
static const char *name_of[PLANT_LINES];

bool lines_sda_held(void)
{
	return clocks_to_free > 0;
}

static bool is(u64 mask, unsigned int line)
{
	return mask & BIT_ULL(line);
}

static void assign(u64 *mask, unsigned int line, bool value)
{
	WRITE_ONCE(*mask, value ? *mask | BIT_ULL(line) : *mask & ~BIT_ULL(line));
}

static int wait_for(u64 at, unsigned int line, bool value);

/* Sets a line's level, whichever side drives it. Returns true if it changed. */
static bool put(unsigned int line, bool value)
{
	bool old = is(level, line);

	if (line == sda && clocks_to_free)
		value = false;
	assign(&level, line, value);
	/* The other end of a wire gets its edge in the timer interrupt, like every edge from outside. */
	if (old != value && follower[line] != NO_LINE)
		wait_for(ktime_get_ns(), follower[line], value);
	if (line == scl && !old && value && clocks_to_free && --clocks_to_free == 0)
		lines_hold_sda(0);
	return old != value;
}

void lines_hold_sda(unsigned int clocks)
{
	clocks_to_free = clocks;
	if (sda != NO_LINE && !is(driven, sda) && put(sda, is(pull, sda)))
		plant_tell(HE_GPIO_IN, sda, 0, is(level, sda), 0, NULL, 0, 0);
}

/* The far side sets a line's level, which has no effect if this side drives the line. */
static void put_from_outside(unsigned int line, bool value, struct fired *fired)
{
	if (is(driven, line) || !put(line, value))
		return;
	plant_tell(HE_GPIO_IN, line, 0, value, 0, NULL, 0, 0);
	if (is(irq_on, line) && irq_type[line] & (value ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING) &&
	    fired->count < PLANT_LINES)
		fired->line[fired->count++] = line;
}

void lines_pulse(u16 addr, u8 reg, bool on)
{
	if (terminal != NO_LINE && terminal_reg == (addr | reg << 8))
		wait_for(ktime_get_ns(), terminal, on);
}

void lines_fire(const struct fired *fired)
{
	for (unsigned int i = 0; i < fired->count; i++)
		generic_handle_domain_irq_safe(chip.irq.domain, fired->line[i]);
}

/* ---- edges due later ---- */

static void arm(void)
{
	u64 next = waiting ? edges[0].at : U64_MAX;

	for (int i = 0; i < ENCODERS; i++)
		if (encoders[i].on)
			next = min(next, encoders[i].next);
	if (next != U64_MAX)
		hrtimer_start(&timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
}

static int wait_for(u64 at, unsigned int line, bool value)
{
	unsigned int place = waiting;

	if (waiting == WAITING)
		return -ENOSPC;
	for (; place && edges[place - 1].at > at; place--)
		edges[place] = edges[place - 1];
	edges[place] = (struct edge){ at, line, value };
	waiting++;
	arm();
	return 0;
}

static void turn(struct encoder *encoder, u64 now, struct fired *fired)
{
	while (encoder->on && encoder->next <= now && fired->count < PLANT_LINES) {
		unsigned int line = (encoder->phase & 1) ^ (encoder->period < 0) ? encoder->b : encoder->a;

		put_from_outside(line, !is(level, line), fired);
		encoder->phase++;
		encoder->next += abs(encoder->period);
		if (encoder->left > 0 && --encoder->left == 0)
			encoder->on = false;
	}
}

/* In a hard interrupt: edges preempt whatever runs, as real edges would. */
static enum hrtimer_restart due(struct hrtimer *expired)
{
	struct fired fired = { .count = 0 };
	u64 now = ktime_get_ns();
	unsigned int gone = 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	for (; gone < waiting && edges[gone].at <= now && fired.count < PLANT_LINES; gone++)
		put_from_outside(edges[gone].line, edges[gone].level, &fired);
	waiting -= gone;
	memmove(edges, edges + gone, waiting * sizeof(edges[0]));
	for (int i = 0; i < ENCODERS; i++)
		turn(&encoders[i], now, &fired);
	arm();
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	lines_fire(&fired);
	return HRTIMER_NORESTART;
}

static int start_encoder(const struct hil_cmd *cmd)
{
	struct encoder encoder = { .on = cmd->arg != 0, .a = cmd->addr, .b = cmd->reg >> 8, .period = cmd->arg,
				   .left = cmd->count, .next = ktime_get_ns() };

	if ((cmd->reg & 255) >= ENCODERS || encoder.b >= ngpio)
		return -EINVAL;
	encoders[cmd->reg & 255] = encoder;
	arm();
	return 0;
}

static void let_go(unsigned int line)
{
	if (is(driven, line)) {
		assign(&driven, line, false);
		put(line, is(pull, line));
	}
	plant_tell(HE_GPIO_DIR, line, is(level, line), 0, 0, NULL, 0, 0);
}

int lines_obey(const struct hil_cmd *cmd, struct fired *fired)
{
	if (cmd->addr >= ngpio)
		return -EINVAL;
	switch (cmd->op) {
	case HC_GPIO_SET:
		if (fired->count == PLANT_LINES)
			return -ENOSPC;
		put_from_outside(cmd->addr, cmd->arg, fired);
		return 0;
	case HC_GPIO_AT:
		return wait_for(cmd->at, cmd->addr, cmd->arg);
	case HC_QUAD:
		return start_encoder(cmd);
	case HC_GPIO_PULL:
		assign(&pull, cmd->addr, cmd->arg);
		put_from_outside(cmd->addr, cmd->arg, fired);
		return 0;
	case HC_WIRE:
		for (int i = 0; i < PLANT_LINES; i++)
			if (follower[i] == cmd->addr)
				follower[i] = NO_LINE;
		if (cmd->reg == HIL_ANY)
			return 0;
		if (cmd->reg >= ngpio || cmd->reg == cmd->addr)
			return -EINVAL;
		follower[cmd->reg] = cmd->addr;
		put_from_outside(cmd->addr, is(level, cmd->reg), fired);
		return 0;
	case HC_PERSIST:
		persist_gpio_outputs = cmd->arg;
		return 0;
	case HC_BOOT:
		for (unsigned int i = 0; i < ngpio; i++)
			if (is(driven, i) && !is(owned, i))
				let_go(i);
		return 0;
	case HC_TERMINAL:
		terminal = cmd->reg ? cmd->addr : NO_LINE;
		terminal_reg = cmd->reg;
		put_from_outside(cmd->addr, false, fired);
		return 0;
	case HC_BUS_PINS:
		if (cmd->reg >= ngpio || cmd->reg == cmd->addr)
			return -EINVAL;
		scl = cmd->addr;
		sda = cmd->reg;
		assign(&pull, scl, true);
		assign(&pull, sda, true);
		put_from_outside(scl, true, fired);
		put_from_outside(sda, true, fired);
		return 0;
	default:
		return -ENOSYS;
	}
}

/* ---- this side, for gpiolib ---- */

static int line_get(struct gpio_chip *gc, unsigned int line)
{
	return is(READ_ONCE(level), line);
}

static void drive(unsigned int line, bool value)
{
	put(line, value);
	plant_tell(HE_GPIO_OUT, line, 0, value, 0, NULL, 0, 0);
}

static void line_set(struct gpio_chip *gc, unsigned int line, int value)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	drive(line, value);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
}

static int line_direction(struct gpio_chip *gc, unsigned int line)
{
	return is(READ_ONCE(driven), line) ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int line_output(struct gpio_chip *gc, unsigned int line, int value)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	assign(&driven, line, true);
	plant_tell(HE_GPIO_DIR, line, !!value, 1, 0, NULL, 0, 0);
	drive(line, value);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	return 0;
}

static int line_input(struct gpio_chip *gc, unsigned int line)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	let_go(line);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	return 0;
}

static int line_request(struct gpio_chip *gc, unsigned int line)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	assign(&owned, line, true);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	return 0;
}

/* The line's owner released it or has exited. */
static void line_free(struct gpio_chip *gc, unsigned int line)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	assign(&owned, line, false);
	if (is(driven, line) && !persist_gpio_outputs)
		let_go(line);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
}

/* A bias may be requested, but the plant decides what an undriven line reads. */
static int line_config(struct gpio_chip *gc, unsigned int line, unsigned long config)
{
	switch (pinconf_to_config_param(config)) {
	case PIN_CONFIG_BIAS_PULL_UP:
	case PIN_CONFIG_BIAS_PULL_DOWN:
	case PIN_CONFIG_BIAS_DISABLE:
		return 0;
	default:
		return -ENOTSUPP;
	}
}

static void listen(struct irq_data *data, bool on)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&plant_lock, flags);
	assign(&irq_on, irqd_to_hwirq(data), on);
	raw_spin_unlock_irqrestore(&plant_lock, flags);
}

static void irq_mask(struct irq_data *data)
{
	listen(data, false);
	gpiochip_disable_irq(&chip, irqd_to_hwirq(data));
}

static void irq_unmask(struct irq_data *data)
{
	gpiochip_enable_irq(&chip, irqd_to_hwirq(data));
	listen(data, true);
}

static int irq_set_type(struct irq_data *data, unsigned int type)
{
	if (type & IRQ_TYPE_LEVEL_MASK)
		return -EINVAL;
	irq_type[irqd_to_hwirq(data)] = type;
	return 0;
}

static const struct irq_chip irqs = {
	.name = "hilplant",
	.irq_mask = irq_mask,
	.irq_unmask = irq_unmask,
	.irq_set_type = irq_set_type,
	.flags = IRQCHIP_IMMUTABLE,
	GPIOCHIP_IRQ_RESOURCE_HELPERS,
};

int lines_init(void)
{
	int err;

	if (ngpio < 1 || ngpio > PLANT_LINES)
		return -EINVAL;
	for (int i = 0; i < ngpio; i++) {
		snprintf(names[i], sizeof(names[i]), "GPIO%d", i);
		name_of[i] = names[i];
	}
	memset(follower, NO_LINE, sizeof(follower));
	parent = platform_device_register_simple("hilplant-gpio", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	timer.function = due;
	chip = (struct gpio_chip){
		.label = "hilplant", .parent = &parent->dev, .owner = THIS_MODULE, .base = -1, .ngpio = ngpio,
		.names = name_of, .get = line_get, .set = line_set, .get_direction = line_direction,
		.direction_input = line_input, .direction_output = line_output, .set_config = line_config,
		.request = line_request, .free = line_free,
	};
	gpio_irq_chip_set_chip(&chip.irq, &irqs);
	chip.irq.handler = handle_simple_irq;
	chip.irq.default_type = IRQ_TYPE_NONE;
	err = gpiochip_add_data(&chip, NULL);
	if (err)
		platform_device_unregister(parent);
	return err;
}

void lines_exit(void)
{
	unsigned long flags;

	/* Without pending edges and encoders, nothing arms the timer again. */
	raw_spin_lock_irqsave(&plant_lock, flags);
	waiting = 0;
	memset(encoders, 0, sizeof(encoders));
	raw_spin_unlock_irqrestore(&plant_lock, flags);
	hrtimer_cancel(&timer);
	gpiochip_remove(&chip);
	platform_device_unregister(parent);
}
