/// All kernels, as one compilation unit: this file is what nvcc, NVRTC and the emulator compile. No toolkit
/// header is needed. README.md says in which order a cycle launches the kernels.
#include "sense.cu"
#include "evolve.cu"
#include "features.cu"
#include "bank.cu"
#include "answer.cu"
#include "metrics.cu"
#include "deliver.cu"
#include "half.cu"
#include "memory.cu"
