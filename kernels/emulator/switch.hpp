/// Switches from one stack to another in a few instructions: saves the registers that a callee must preserve,
/// and nothing else.
///
/// The floating-point modes belong to the thread and are left alone. The signal mask is not touched, so a
/// switch costs no system call.
#pragma once
#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the emulator's fibers support only x86-64 and aarch64"
#endif

/// Leaves this stack, stores its stack pointer in `from`, and continues where stack `to` was left.
extern "C" __attribute__((visibility("hidden"))) void ganglion_emulator_switch(void** from, void* to);

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl ganglion_emulator_switch
.hidden ganglion_emulator_switch
.type ganglion_emulator_switch, @function
ganglion_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ganglion_emulator_switch, . - ganglion_emulator_switch
)");
#else
asm(R"(
.text
.p2align 4
.globl ganglion_emulator_switch
.hidden ganglion_emulator_switch
.type ganglion_emulator_switch, %function
ganglion_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size ganglion_emulator_switch, . - ganglion_emulator_switch
)");
#endif

namespace emulator {

/// The initial stack pointer of a stack that runs `entry` when it is first switched to. `top` is a multiple
/// of 16.
inline void* first_stack(std::uintptr_t top, void (*entry)()) {
#if defined(__x86_64__)
  constexpr int WORDS = 8, RETURN = 6; // six registers, the return address, and a null return address for `entry`
#else
  constexpr int WORDS = 20, RETURN = 11; // x30
#endif
  auto* words = reinterpret_cast<std::uintptr_t*>(top) - WORDS;
  for (int i = 0; i < WORDS; i++) words[i] = 0;
  words[RETURN] = reinterpret_cast<std::uintptr_t>(entry);
  return words;
}

} // namespace emulator
